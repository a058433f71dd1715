"""What launches name beyond the operands of the operation that they belong to, and what was fetched for that, from superpipe's trace.

A struct that a program hands to its kernel by value has words that the kernel does not use. What they hold was there before, often the
address of a tensor of an earlier operation: a stale word.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path


def mark(operation: int) -> str:
    """The text of the range of NVTX around the operation of that number."""
    return f"operation {operation}"


@dataclass
class Buffer:
    address: int
    operation: int | None  # in which it was allocated
    unused_bytes: int = 0  # fetched since a launch named it last
    workspace: bool = False


@dataclass
class Found:
    launches: int = 0  # with buffers, in an operation
    unmarked: int = 0  # with buffers, in none
    names: int = 0  # of buffers in launches of operations
    stale_names: int = 0
    fetched_bytes: int = 0
    stale_bytes: int = 0  # of them, for buffers that a stale word named first
    stale: dict[str, int] = field(default_factory=dict)  # stale names by kernel

    def detail(self) -> str:
        return (f"{self.stale_bytes} of {self.fetched_bytes} bytes fetched for stale words, {self.stale_names} of {self.names} names "
                f"stale, {self.launches} launches")


def read_rows(export: Path) -> list[dict[str, str]]:
    """The rows of a trace that superpipe export wrote as CSV, in the order of time; those of one thread stay in theirs."""
    with export.open(newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: int(row["time_ns"]))


def stale_words(rows: list[dict[str, str]], operands: list[list[int]]) -> Found:
    """What launches name, by the `operands` of the operations (OperandMarks).

    An operation uses, besides its operands, what is allocated in it. What stays behind it and is no operand of it, a library has for
    itself: cuBLAS its workspace, which later operations use as well.
    """
    found = Found()
    live: dict[str, Buffer] = {}
    running: dict[str, list[int | None]] = {}  # operations by thread, the innermost last; None: another range
    texts = {mark(number): number for number in range(len(operands))}
    for row in rows:
        event, ranges = row["event"], running.setdefault(row["thread"], [])
        operation = next((each for each in reversed(ranges) if each is not None), None)
        if event == "mark" and row["way"] == "begin":
            ranges.append(texts.get(row["text"]))
        elif event == "mark" and row["way"] == "end" and ranges:
            if (ended := ranges.pop()) is not None:
                for buffer in live.values():
                    if buffer.operation == ended:
                        buffer.workspace = buffer.address not in operands[ended]
                        buffer.operation = None
        elif event == "allocation" and row["buffer"]:
            live[row["buffer"]] = Buffer(int(row["address"]), operation)
        elif event == "free":
            live.pop(row["buffer"], None)
        elif event == "fetch" and row["buffer"] in live:
            found.fetched_bytes += int(row["size"])
            live[row["buffer"]].unused_bytes += int(row["size"])
        elif event == "launch" and row["buffers"]:
            named = [live[each] for each in row["buffers"].split() if each in live]
            if operation is None:
                found.unmarked += 1
            else:
                found.launches += 1
                found.names += len(named)
                for buffer in named:
                    if buffer.operation != operation and not buffer.workspace and buffer.address not in operands[operation]:
                        found.stale_names += 1
                        found.stale_bytes += buffer.unused_bytes
                        found.stale[row["kernel"]] = found.stale.get(row["kernel"], 0) + 1
            for buffer in named:
                buffer.unused_bytes = 0
    return found


def problem(found: Found) -> str | None:
    """What is wrong with a run in which nothing should be fetched for a stale word, None if nothing is."""
    if found.unmarked or not found.launches:
        return f"{found.unmarked} launches of no operation, {found.launches} of operations"
    if not found.fetched_bytes:
        return "nothing was fetched at all"
    if found.stale_bytes:
        most = sorted(found.stale, key=found.stale.get, reverse=True)[:3]
        return f"{found.detail()}, by {'; '.join(name[:100] for name in most)}"
    return None
