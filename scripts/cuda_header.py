"""Reads the CUDA driver API's functions out of cuda.h, for the generators."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Function:
    """One declared driver function: exported symbol, return type, parameters as (type, name)."""

    name: str
    returns: str
    parameters: tuple[tuple[str, str], ...]



def _split_parameter(text: str) -> tuple[str, str]:
    text = " ".join(text.split())
    array = re.search(r"(\[[^\]]*\])$", text)
    if array:
        text = text[: array.start()]
    match = re.match(r"(.*?[\s\*])(\w+)$", text)
    if not match:
        raise ValueError(f"cannot read parameter '{text}'")
    kind = match.group(1).strip() + (" *" if array else "")
    return kind, match.group(2)


def functions(include_dir: Path) -> list[Function]:
    """Every function that `include_dir`/cuda.h declares, all ABI versions, sorted by name."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "all.cc"
        source.write_text("#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n")
        text = subprocess.run(
            ["g++", "-E", "-P", f"-I{include_dir}", str(source)],
            check=True, capture_output=True, text=True,
        ).stdout
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", text)
    found: dict[str, Function] = {}
    for statement in re.split(r"(?<=;)", text):
        statement = " ".join(statement.split())
        if statement.startswith("typedef"):
            continue
        match = re.search(r"\b(CUresult)\s+(cu[A-Z]\w*)\s*\((.*)\)\s*;$", statement)
        if not match:
            continue
        arguments = match.group(3).strip()
        parameters = () if arguments in ("", "void") else tuple(
            _split_parameter(piece) for piece in _split_arguments(arguments))
        found[match.group(2)] = Function(match.group(2), match.group(1), parameters)
    return [found[name] for name in sorted(found)]


def _split_arguments(text: str) -> list[str]:
    pieces, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "," and depth == 0:
            pieces.append(text[start:position])
            start = position + 1
    pieces.append(text[start:])
    return pieces
