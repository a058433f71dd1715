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


@dataclass(frozen=True, order=True)
class EntryPoint:
    """One answer of cuGetProcAddress: the base name asked for, the CUDA version that introduced this
    ABI (1000 * major + 10 * minor), whether it is the variant for per-thread default streams, and
    the exported symbol that implements it."""

    name: str
    version: int
    per_thread: bool
    symbol: str


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


_TYPEDEF = re.compile(r"\bPFN_(cu[A-Z]\w*?)_v(\d+)(_ptsz|_ptds)?\b")
_SYMBOL = re.compile(r"(cu[A-Z]\w*?)(?:_v(\d+))?(_ptsz|_ptds)?$")

# The headers with the functions that a driver exports, and the headers that give their versions.
_TYPEDEF_HEADERS = ("cudaTypedefs.h", "cudaProfilerTypedefs.h")


def profiler_functions() -> list[Function]:
    """The driver functions that cudaProfiler.h declares rather than cuda.h, sorted by name."""
    return [
        Function("cuProfilerInitialize", "CUresult", (
            ("const char *", "configFile"), ("const char *", "outputFile"),
            ("CUoutput_mode", "outputMode"))),
        Function("cuProfilerStart", "CUresult", ()),
        Function("cuProfilerStop", "CUresult", ()),
    ]


def entry_points(include_dir: Path) -> list[EntryPoint]:
    """What cuGetProcAddress can be asked for: base name, version and stream flag to exported symbol.

    The typedef headers name each ABI by the version that introduced it (PFN_cuMemcpyHtoD_v3020), the
    driver by a running number (cuMemcpyHtoD_v2). Ordered by version and by number they pair up, for
    the ordinary and for the per-thread variants apart; a name whose counts differ is an error, so
    that a new header cannot be misread in silence. Sorted by name, version, variant.
    """
    versions: dict[tuple[str, bool], set[int]] = {}
    for header in _TYPEDEF_HEADERS:
        for name, version, suffix in _TYPEDEF.findall((include_dir / header).read_text()):
            versions.setdefault((name, bool(suffix)), set()).add(int(version))
    symbols: dict[tuple[str, bool], list[tuple[int, str]]] = {}
    for function in functions(include_dir) + profiler_functions():
        name, number, suffix = _SYMBOL.match(function.name).groups()
        symbols.setdefault((name, bool(suffix)), []).append((int(number or 1), function.name))
    found = []
    for key in sorted(versions.keys() | symbols.keys()):
        dates = sorted(versions.get(key, ()))
        numbered = sorted(symbols.get(key, ()))
        if len(dates) != len(numbered):
            raise ValueError(f"{key[0]}: {len(dates)} versions in the typedef headers, "
                             f"but {len(numbered)} symbols")
        found += [EntryPoint(key[0], date, key[1], symbol)
                  for date, (_, symbol) in zip(dates, numbered)]
    return sorted(found)
