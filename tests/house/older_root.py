"""A Debian of another time as a folder: what its packages hold, with a Python and little else."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

PACKAGES = ("libc6", "python3-minimal", "libpython3-stdlib", "dash", "coreutils")
SOURCES = (Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*")))


class Unavailable(Exception):
    """The machine cannot have such a root; the text says why."""


def mirrors(line: str) -> list[str]:
    """The places that a line of apt's lists names, in the form of *.sources or of *.list."""
    if line.startswith("URIs:"):
        return line.split()[1:]
    # deb [OPTION=WORDS...] PLACE SUITE COMPONENT...
    found = re.match(r"deb\s+(?:\[[^]]*\]\s*)?(\S+)", line)
    return [found[1]] if found else []


def machine_sources(suite: str, lists: Iterable[Path] = SOURCES) -> str:
    """apt's entry for `suite`, at the place that this machine has Debian's packages from."""
    for file in lists:
        if file.suffix not in (".list", ".sources") or not file.is_file():
            continue
        for line in file.read_text().splitlines():
            for place in mirrors(line):
                if place.rstrip("/").endswith("/debian"):
                    return (
                        f"Types: deb\nURIs: {place}\nSuites: {suite}\nComponents: main\n"
                        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
                    )
    raise Unavailable("this machine's packages are not Debian's")


def make_root(folder: Path, suite: str) -> Path:
    """A root in which programs of `suite` run. @raises Unavailable where it cannot be had."""
    state, root = folder / "apt", folder / "root"
    for part in ("parts", "lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True)
    (state / "parts" / "debian.sources").write_text(machine_sources(suite))
    (state / "status").touch()
    apt = ["apt-get", "-qq"]
    for option in (
        "APT::Sandbox::User=root",
        "Dir::Etc::SourceList=/dev/null",
        f"Dir::Etc::SourceParts={state}/parts",
        f"Dir::State::Lists={state}/lists",
        f"Dir::Cache={state}/cache",
        f"Dir::State::status={state}/status",
    ):
        apt += ["-o", option]
    for words in (
        ["update"],
        ["install", "--yes", "--download-only", "--no-install-recommends", *PACKAGES],
    ):
        ran = subprocess.run([*apt, *words], capture_output=True, text=True)
        if ran.returncode != 0:
            raise Unavailable(f"{suite}'s packages are not to be had: {ran.stderr.strip()}")
    root.mkdir()
    for package in sorted((state / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    for name in ("proc", "dev", "tmp", "opt"):
        (root / name).mkdir(exist_ok=True)
    return root


def in_root(root: Path, *command: object) -> list[str]:
    """What runs `command` in `root`, with this machine's devices. Needs namespaces."""
    words = 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
    return [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        words,
        str(root),
        *map(str, command),
    ]
