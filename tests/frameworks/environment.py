"""The Python environment of tests/frameworks: build/frameworks-venv, with what requirements.txt names."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from simulated_torch import Unfit

REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"


def prepare(root: Path) -> Path:
    """Its interpreter. Makes the environment if it is not there or was made for other requirements (6 GB, minutes).

    @raises Unfit if the packages cannot be installed.
    """
    folder = root / "build" / "frameworks-venv"
    stamp, python = folder / "installed.txt", folder / "bin" / "python3"
    if stamp.is_file() and stamp.read_text() == REQUIREMENTS.read_text() and python.exists():
        return python
    print(f"frameworks: installing {REQUIREMENTS.name} in {folder.relative_to(root)}, 6 GB, for minutes", file=sys.stderr, flush=True)
    venv.create(folder, clear=True, with_pip=True)
    # Few of all these modules are ever imported: each is compiled then.
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check",
               "--requirement", str(REQUIREMENTS)]
    if subprocess.run(install).returncode != 0:
        raise Unfit(f"pip could not install {REQUIREMENTS.name}")
    stamp.write_text(REQUIREMENTS.read_text())
    return python


if __name__ == "__main__":
    try:
        prepare(Path(__file__).resolve().parents[2])
    except Unfit as unfit:
        sys.exit(f"frameworks: {unfit}")
