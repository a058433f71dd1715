"""Whether tools/kernel_words.json speaks of the structs that the installed PyTorch hands to its kernels, and says which words are
pointers."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "tools" / "kernel_words.json"
FIND_VERSION = "import torch; print(torch.__version__)"
FIND_LIBRARY = "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0] + '/lib/libtorch_cuda.so')"


def parameters_of(python: Path, program: Path) -> list[tuple[int, int, str]]:
    """The by-value parameters of the kernels in the library of `python`'s torch, as `program` (kernel_parameters.cc) lists them:
    kernels, bytes, type. @raises RuntimeError if that cannot be read."""
    library = subprocess.run([str(python), "-c", FIND_LIBRARY], check=True, capture_output=True, text=True).stdout.strip()
    listed = subprocess.run([str(program), library], capture_output=True, text=True)
    if listed.returncode != 0:
        raise RuntimeError(listed.stderr.strip())
    rows = (line.split("\t", 2) for line in listed.stdout.splitlines())
    return [(int(kernels), int(size), name) for kernels, size, name in rows]


def fits(struct: dict, size: int, name: str) -> bool:
    return name.startswith(struct["type"]) and struct["bytes"][0] <= size <= struct["bytes"][1]


def rows_problem(parameters: list[tuple[int, int, str]], structs: list[dict]) -> tuple[str | None, str]:
    """What is wrong with the table, None if nothing is, and how much it covers.

    Every row has to fit a kernel: a struct of another version of PyTorch has another size, and the row has to be written anew
    for it. Structs without a row are looked at word by word, which costs time and fetches but nothing else.
    """
    unused = [struct["name"] for struct in structs if not any(fits(struct, size, name) for _, size, name in parameters)]
    covered = sum(kernels for kernels, size, name in parameters if any(fits(struct, size, name) for struct in structs))
    detail = f"{len(structs) - len(unused)} of {len(structs)} rows, {covered} of {sum(row[0] for row in parameters)} structs of kernels"
    return (f"no kernel has what these rows describe: {'; '.join(unused)}" if unused else None), detail


def structs_of_version(structs: list[dict], version: str) -> list[dict]:
    """Those that the table has for that version of PyTorch."""
    def number(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split(".")[:2])
    return [struct for struct in structs
            if number(struct.get("from", "0.0")) <= number(version) <= number(struct.get("to", "99.0"))]


def check_rows(python: Path, program: Path) -> tuple[str | None, str]:
    """rows_problem() of the table as it is. @raises RuntimeError as parameters_of()."""
    version = subprocess.run([str(python), "-c", FIND_VERSION], check=True, capture_output=True, text=True).stdout.strip()
    structs = structs_of_version(json.loads(TABLE.read_text())["structs"], version)
    return rows_problem(parameters_of(python, program), structs)


def launches_of_steps(timeline: Path) -> list[set[int]]:
    """The buffers that the launches of each step of operands.py named, by superpipe's timeline. A step ends with the marks, which
    are the first two buffers: a launch that is written down late may come between them."""
    with timeline.open(newline="") as file:
        named = [int(row["buffer"]) for row in csv.DictReader(file) if row["event"] == "launch"]
    first_mark, last_mark = named[:2]
    groups = [set()]
    for buffer in named[2:]:
        if buffer == last_mark:
            groups.append(set())
        elif buffer != first_mark:
            groups[-1].add(buffer)
    return groups[:-1]


def operands_problem(steps: list[dict], named: list[set[int]]) -> tuple[str | None, str]:
    """The operands of `steps` that no launch of theirs named, None if there are none, and what was looked at."""
    if len(named) != len(steps):
        return f"the timeline has the launches of {len(named)} steps, not of {len(steps)}", ""
    filled: dict[int, int] = {}  # the buffer of each tensor, by the step that filled it
    for number, (step, buffers) in enumerate(zip(steps, named)):
        if step["uses"] == [number]:
            buffers = named[number + 1]  # of the touch: the fill itself may be written down late, behind others
            if len(buffers) != 1:
                return f"step {number} fills one tensor, and then {len(buffers)} buffers were touched", ""
            filled[number] = next(iter(buffers))
    operations = [(step, buffers) for number, (step, buffers) in enumerate(zip(steps, named)) if step["uses"] and number not in filled]
    missed = [step["name"] for step, buffers in operations if {filled[use] for use in step["uses"]} - buffers]
    detail = f"{len(operations)} operations, {sum(len(step['uses']) for step, _ in operations)} operands"
    return (f"launches without an operand of theirs: {', '.join(missed)}" if missed or not operations else None), detail
