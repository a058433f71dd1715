"""The Python environment of tests/frameworks: build/frameworks-venv, with what requirements.txt names."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from simulated_torch import Unfit

REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"


def made(root: Path) -> Path | None:
    """The interpreter of an environment that prepare() has finished, which may be at work beside the caller; None if there is none."""
    folder = root / "build" / "frameworks-venv"
    stamp, python = folder / "installed.txt", folder / "bin" / "python3"
    return python if stamp.is_file() and stamp.read_text() == REQUIREMENTS.read_text() and python.exists() else None


def torch_python(root: Path) -> Path | None:
    """An interpreter that has PyTorch: the one that SUPERPIPE_TORCH_PYTHON names, or that of made().

    @raises Unfit if the named one is not there.
    """
    named = os.environ.get("SUPERPIPE_TORCH_PYTHON")
    if not named:
        return made(root)
    if not Path(named).is_file():
        raise Unfit(f"SUPERPIPE_TORCH_PYTHON is {named}, which is no file")
    return Path(named).absolute()


def prepare(root: Path) -> Path:
    """Its interpreter. Makes the environment if it is not there or was made for other requirements (6 GB, minutes).

    @raises Unfit if the packages cannot be installed.
    """
    if python := made(root):
        return python
    folder = root / "build" / "frameworks-venv"
    python = folder / "bin" / "python3"
    print(f"frameworks: installing {REQUIREMENTS.name} in {folder.relative_to(root)}, 6 GB, for minutes", file=sys.stderr, flush=True)
    venv.create(folder, clear=True, with_pip=True)
    # Few of all these modules are ever imported: each is compiled then.
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check",
               "--requirement", str(REQUIREMENTS)]
    if subprocess.run(install).returncode != 0:
        raise Unfit(f"pip could not install {REQUIREMENTS.name}")
    (folder / "installed.txt").write_text(REQUIREMENTS.read_text())
    return python


if __name__ == "__main__":
    try:
        prepare(Path(__file__).resolve().parents[2])
    except Unfit as unfit:
        sys.exit(f"frameworks: {unfit}")
