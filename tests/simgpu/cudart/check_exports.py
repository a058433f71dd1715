#!/usr/bin/env python3
"""Compares the exported symbols of two libraries: check_exports.py OURS THEIRS

Fails if OURS lacks a function that THEIRS exports, or has it under another version node.
"""

import subprocess
import sys


def exports(library: str) -> set[tuple[str, str]]:
    """(name, version) of every defined dynamic symbol."""
    text = subprocess.run(
        ["objdump", "-T", library], check=True, capture_output=True, text=True).stdout
    found = set()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 6 and "*UND*" not in fields and fields[0][0] in "0123456789abcdef":
            found.add((fields[-1], fields[-2].strip("()")))
    return found


def main() -> int:
    ours, theirs = exports(sys.argv[1]), exports(sys.argv[2])
    missing = sorted(theirs - ours)
    for name, version in missing:
        print(f"{name}@{version} is missing from {sys.argv[1]}", file=sys.stderr)
    print(f"{len(theirs)} symbols wanted, {len(missing)} missing")
    return 1 if missing or not theirs else 0


if __name__ == "__main__":
    sys.exit(main())
