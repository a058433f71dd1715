"""Installs a Jupyter kernel that runs under superpipe.

    python -m superpipe.jupyter install --gpu-mem 6G [--simulate] [--name NAME]

The kernel is this Python's ipykernel, started by `superpipe run`, whose flags it takes. Where
superpipe cannot run, the kernel does not start, and the log of the notebook server says why.
`jupyter kernelspec remove NAME` removes it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import sys
import tempfile

from superpipe import _process

_DEFAULT_NAME = "superpipe"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m superpipe.jupyter",
        description="Installs a Jupyter kernel that runs under superpipe.",
        allow_abbrev=False,
    )
    subcommands = parser.add_subparsers(dest="subcommand", metavar="install", required=True)
    install = subcommands.add_parser(
        "install",
        help="write a kernelspec",
        description="Writes a kernelspec that starts this Python's ipykernel by superpipe run. All "
        "flags of superpipe run (superpipe run --help) follow, such as --gpu-mem 6G or --simulate.",
        usage="%(prog)s [--name NAME] [--display-name TEXT] [--user | --sys-prefix | --prefix "
        "FOLDER] [FLAGS of superpipe run]",
        allow_abbrev=False,
    )
    install.add_argument("--name", default=_DEFAULT_NAME, help="its name (default superpipe)")
    install.add_argument(
        "--display-name", help="what notebooks show (default: Python and the flags)"
    )
    place = install.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true", help="for this user")
    place.add_argument(
        "--sys-prefix",
        action="store_true",
        help="for this Python environment (default in one; elsewhere --user)",
    )
    place.add_argument("--prefix", metavar="FOLDER", help="below FOLDER/share/jupyter/kernels")
    options, flags = parser.parse_known_args(words)
    try:
        print(f"installed the kernel {options.name} in {_install(options, flags)}")
    except (ValueError, OSError) as problem:
        return _fail(problem, 2)
    except _process.Error as problem:
        return _fail(problem, 125)
    return 0


def _install(options: argparse.Namespace, flags: list[str]) -> str:
    """@return the folder of the kernelspec."""
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", options.name):
        raise ValueError(
            f"--name {options.name}: it takes letters, digits, dots, hyphens and underscores, "
            "and begins with a letter or a digit"
        )
    if importlib.util.find_spec("ipykernel") is None:
        raise _process.Error(f"{sys.executable} has no ipykernel: pip install ipykernel")
    if any(flag == "--runtime" or flag.startswith("--runtime=") for flag in flags):
        raise ValueError("--runtime is a flag of superpipe env, and not of superpipe run")
    # What is wrong with the flags is said now, and not where the kernel starts.
    _process.environment_of(flags)
    shown = options.display_name or " ".join(["Python (superpipe", *flags]) + ")"
    folder = os.path.join(_kernels(options), options.name)
    os.makedirs(folder, exist_ok=True)
    specification = {
        # It becomes the kernel, so that signals and the process's id are the kernel's own.
        "argv": [
            _process.command(),
            "run",
            *flags,
            "--",
            sys.executable,
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
        ],
        "display_name": shown,
        "language": "python",
        "metadata": {"debugger": True},
    }
    _write(os.path.join(folder, "kernel.json"), json.dumps(specification, indent=1) + "\n")
    return folder


def _kernels(options: argparse.Namespace) -> str:
    """The folder of kernelspecs that `options` name, where Jupyter looks for them."""
    is_environment = sys.prefix != sys.base_prefix
    if options.prefix:
        data = os.path.join(os.path.abspath(options.prefix), "share", "jupyter")
    elif options.sys_prefix or (is_environment and not options.user):
        data = os.path.join(sys.prefix, "share", "jupyter")
    else:
        share = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        data = os.environ.get("JUPYTER_DATA_DIR") or os.path.join(share, "jupyter")
    return os.path.join(data, "kernels")


def _write(path: str, text: str) -> None:
    """Makes `text` the content of `path`, which is never seen half written."""
    handle, fresh = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".kernel-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(fresh, 0o644)
        os.replace(fresh, path)
    except OSError:
        os.unlink(fresh)
        raise


def _fail(problem: Exception, code: int) -> int:
    print(f"superpipe.jupyter: {problem}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
