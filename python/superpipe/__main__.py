"""The programs of this installation as console scripts, and as `python -m superpipe`.

Each start of superpipe passes through here: what is imported is paid for every time.
"""

import os
import sys

_BIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def _execute(name: str) -> int:
    """Becomes the program `name` of superpipe/bin, with the arguments of this process.

    Returns an exit code where that fails.
    """
    program = os.path.join(_BIN, name)
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        print(
            f"superpipe: cannot execute {program}: {error.strerror} "
            "(the wheel is for Linux on x86_64 with glibc 2.28 or newer)",
            file=sys.stderr,
        )
    return 125


def main() -> int:
    return _execute("superpipe")


def layers() -> int:
    return _execute("superpipe-layers")


def minilm() -> int:
    return _execute("superpipe-minilm")


if __name__ == "__main__":
    sys.exit(main())
