"""The Python environments of tests/frameworks: one for each framework, with what its list of requirements names."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from simulated_torch import Unfit

HERE = Path(__file__).resolve().parent
# Of each framework: the folder in build/, the lists, and how much they install.
ENVIRONMENTS = {"torch": ("frameworks-venv", ("requirements.txt", "requirements-scripts.txt"), "6 GB"),
                "jax": ("jax-venv", ("requirements-jax.txt",), "4 GB"),
                "tensorflow": ("tensorflow-venv", ("requirements-tensorflow.txt",), "6 GB"),
                "onnx": ("onnx-venv", ("requirements-onnx.txt",), "3 GB")}


def text_of(lists: tuple[str, ...]) -> str:
    return "".join((HERE / name).read_text() for name in lists)


def made(root: Path, framework: str = "torch") -> Path | None:
    """The interpreter of an environment that prepare() has finished, which may be at work beside the caller; None if there is none."""
    name, lists, _ = ENVIRONMENTS[framework]
    folder = root / "build" / name
    stamp, python = folder / "installed.txt", folder / "bin" / "python3"
    is_finished = stamp.is_file() and stamp.read_text() == text_of(lists)
    return python if is_finished and python.exists() else None


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


def prepare(root: Path, framework: str = "torch") -> Path:
    """Its interpreter. Makes the environment if it is not there or was made for other requirements (gigabytes, minutes).

    @raises Unfit if the packages cannot be installed.
    """
    if python := made(root, framework):
        return python
    name, lists, size = ENVIRONMENTS[framework]
    folder = root / "build" / name
    python = folder / "bin" / "python3"
    print(f"frameworks: installing {' and '.join(lists)} in {folder.relative_to(root)}, {size}, for minutes", file=sys.stderr, flush=True)
    venv.create(folder, clear=True, with_pip=True)
    # Few of all these modules are ever imported: each is compiled then.
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check",
               *(word for name in lists for word in ("--requirement", str(HERE / name)))]
    if subprocess.run(install).returncode != 0:
        raise Unfit(f"pip could not install {' and '.join(lists)}")
    (folder / "installed.txt").write_text(text_of(lists))
    return python


if __name__ == "__main__":
    try:
        for framework in sys.argv[1:] or ["torch"]:
            prepare(HERE.parents[1], framework)
    except Unfit as unfit:
        sys.exit(f"frameworks: {unfit}")
