"""Where the parts of superpipe lie: in a package as scripts/package makes it, or in a build tree."""

from __future__ import annotations

import os
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]

# Folders below the root in which a program of the checks may lie: the package's first.
PROGRAM_FOLDERS = ("libexec/superpipe", "bin", "tests/gpu", "tests/interposer", "bench")


class MissingPart(Exception):
    """A file that a step needs is not there; the text names it."""


class Layout:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.superpipe = self.root / "bin" / "superpipe"
        self.library = self.root / "lib" / "superpipe" / "libsuperpipe.so"
        self.simgpu = self.root / "lib" / "superpipe" / "simgpu"
        self.simgpu_driver = self.simgpu / "libcuda.so.1"
        self.cublas = [self.simgpu / name for name in ("libcublas.so.13", "libcublasLt.so.13")]  # simgpu's
        self.scripts = SCRIPTS

    def program(self, name: str) -> Path:
        """The path of a program, a plugin or a data file of the checks."""
        for folder in PROGRAM_FOLDERS:
            if (self.root / folder / name).is_file():
                return self.root / folder / name
        raise MissingPart(f"{name} is not in {self.root}: unpack the package again, or build all of superpipe")

    def example(self, name: str) -> Path:
        return self.program(f"superpipe-{name}")

    def version(self) -> str:
        """What the package calls itself; empty where it does not say."""
        for folder in (self.root / "lib" / "cmake" / "superpipe", self.root / "cmake"):
            file = folder / "superpipeConfigVersion.cmake"
            if file.is_file():
                for line in file.read_text().splitlines():
                    if line.startswith("set(PACKAGE_VERSION "):
                        return line.split('"')[1]
        return ""


def default_root() -> Path:
    """The package that holds this script; in a checkout, the build that SUPERPIPE_BUILD_DIR names."""
    build = os.environ.get("SUPERPIPE_BUILD_DIR")
    return Path(build) if build else SCRIPTS.parent
