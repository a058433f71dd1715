#!/usr/bin/env python3
"""Writes the names of all functions that cuda.h declares as string literals.

list_symbols.py INCLUDE_DIR OUT
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import cuda_header  # noqa: E402  (found through the path above)


def main() -> int:
    names = [function.name for function in cuda_header.functions(Path(sys.argv[1]))]
    Path(sys.argv[2]).write_text("".join(f'"{name}",\n' for name in names))
    return 0 if names else 1


if __name__ == "__main__":
    sys.exit(main())
