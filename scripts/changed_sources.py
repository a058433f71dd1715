"""A copy of the checkout's sources that can be changed and built, for wrong versions that tests have to find.

A change is an entry of a JSON list: 'find' stands exactly once in 'file' and becomes 'replace'.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Failure(Exception):
    """A line for the user."""


def run(command, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def replaced(text: str, entry: dict, listed_in: Path) -> str:
    """`text`, that of entry["file"], with the change. @raises Failure if it does not fit."""
    if text.count(entry["find"]) != 1:
        raise Failure(f"{entry['file']} has the text of \"{entry['name']}\" {text.count(entry['find'])} times, not once: "
                      f"bring {listed_in.relative_to(ROOT)} up to date")
    return text.replace(entry["find"], entry["replace"])


def check(entries: list[dict], listed_in: Path) -> None:
    """@raises Failure for the first of `entries` that does not fit the checkout's sources."""
    for entry in entries:
        replaced((ROOT / entry["file"]).read_text(), entry, listed_in)


class ChangedSources:
    """The folder `work`: sources in work/source, what is built of them in work/build. The checkout is not changed."""

    def __init__(self, work: Path, targets: list[str], jobs: int) -> None:
        self.source, self.binary = work / "source", work / "build"
        self.targets, self.jobs = targets, jobs

    def copy(self) -> None:
        """Makes the sources what is checked out, and touches only files that differ, so that few are built again."""
        self.source.mkdir(parents=True, exist_ok=True)
        listed = run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True)
        names = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
        for name in names:
            content, target = (ROOT / name).read_bytes(), self.source / name
            if target.is_file() and target.read_bytes() == content:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            shutil.copymode(ROOT / name, target)
        for stale in [path for path in self.source.rglob("*") if path.is_file() and str(path.relative_to(self.source)) not in names]:
            stale.unlink()
        for tools in (".deps", ".venv"):  # by scripts/setup
            if (ROOT / tools).exists() and not (self.source / tools).exists():
                (self.source / tools).symlink_to(ROOT / tools)

    def build(self) -> None:
        """Builds the targets. @raises Failure if that fails."""
        if not (self.binary / "build.ninja").is_file():
            configured = run(["cmake", "-S", self.source, "-B", self.binary, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                              "-DSUPERPIPE_WARNINGS_AS_ERRORS=OFF"])
            if configured.returncode != 0:
                raise Failure(f"cmake failed; is the checkout set up (scripts/setup)?\n{configured.stderr[-2000:]}")
        built = run(["cmake", "--build", self.binary, "--target", *self.targets, "--parallel", self.jobs])
        if built.returncode != 0:
            raise Failure(f"it does not compile:\n{built.stdout[-3000:]}")

    @contextlib.contextmanager
    def changed(self, entry: dict, listed_in: Path):
        """The sources with one change, until the end of the `with`."""
        target = self.source / entry["file"]
        text = target.read_text()
        target.write_text(replaced(text, entry, listed_in))
        try:
            yield
        finally:
            target.write_text(text)
