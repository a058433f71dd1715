"""The folder with the results: a JSON file for each step, one for all, and an archive of the logs.

Every file is replaced as a whole, so that what a kill leaves behind can be read and resumed.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

FORMAT = 1
STEPS = ("doctor", "conformance", "tests", "examples", "torch", "peers", "launch")
# The states of a step.
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
TIMED_OUT, INTERRUPTED, RUNNING = "timed_out", "interrupted", "running"
# --resume does not start steps in these states again. A skipped one it does: it may be possible by now.
FINISHED = (PASSED, FAILED)
MOST_LOG_BYTES = 2 << 20  # of each log; its end is kept


class FolderError(Exception):
    """The folder cannot be used; the text is one line."""


def write_atomically(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    write_atomically(path, (json.dumps(value, indent=1, sort_keys=False) + "\n").encode())


def read_json(path: Path) -> dict:
    """The object in a file; empty if there is none or it is damaged."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


class Folder:
    """The results of one check."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = path / "logs"

    def prepare(self) -> None:
        """Makes the folder, and sees that files can be written there."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.clean()
            write_atomically(self.path / ".probe", b"")
            (self.path / ".probe").unlink()
        except OSError as error:
            raise FolderError(f"cannot write results into {self.path}: {error.strerror}; "
                              "--output FOLDER names another place") from error

    def clean(self) -> None:
        """Removes what a process that was killed while it wrote has left. REQUIRES: nobody writes."""
        for left in self.path.glob(".*.part"):
            left.unlink()

    def summary(self) -> dict:
        return read_json(self.path / "summary.json")

    def write_summary(self, summary: dict) -> None:
        write_json(self.path / "summary.json", summary)

    def step(self, name: str) -> dict:
        return read_json(self.path / f"{name}.json")

    def write_step(self, name: str, value: dict) -> None:
        write_json(self.path / f"{name}.json", value)

    def log_file(self, step: str, attempt: int) -> Path:
        self.logs.mkdir(exist_ok=True)
        return self.logs / f"{step}-{attempt}.log"

    def pack_logs(self) -> None:
        """Puts the loose logs into logs.tar.gz, beside what is there already."""
        if not self.logs.is_dir():
            return
        archive = self.path / "logs.tar.gz"
        contents: dict[str, bytes] = {}
        if archive.is_file():
            try:
                with tarfile.open(archive) as packed:
                    for member in packed.getmembers():
                        contents[member.name] = packed.extractfile(member).read()
            except (tarfile.TarError, OSError, EOFError):
                contents = {}
        for file in sorted(self.logs.iterdir()):
            with file.open("rb") as log:
                log.seek(max(0, file.stat().st_size - MOST_LOG_BYTES))
                contents[f"logs/{file.name}"] = log.read()
        packed_bytes = io.BytesIO()
        with tarfile.open(fileobj=packed_bytes, mode="w:gz") as packed:
            for name, content in sorted(contents.items()):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                packed.addfile(member, io.BytesIO(content))
        write_atomically(archive, packed_bytes.getvalue())
        for file in self.logs.iterdir():
            file.unlink()
        self.logs.rmdir()
