#!/usr/bin/env python3
"""Computes what no schedule beats that also writes back what it evicts: the fluid bound of a pass.

Usage: fluid_bound.py LAUNCHES.json FIGURES.json [--workload NAME]... [--budget PERCENT]... [--first] [--slots N] [--json FILE]

Both files come from one run of virtual_time, with --launches and --json. A line for each workload and budget: the windowed bound
(policy/windowed_bound.h), the fluid bound, and how many times the fluid bound a pass under auto takes. Needs highspy (pip install highspy).
Exit code: 0 all is computed; 1 a bound was not found; 2 a file cannot be read, or highspy is missing.

The bound is the optimum of a linear program. A pass is cut into slots at launches. For each buffer and slot it chooses how many bytes
are on the device when the slot begins, how many are fetched within it, and how many are written back, so that

- at the beginning of each slot the bytes of all buffers are within the budget,
- a launch has its buffers whole: what was not there when its slot began is fetched within the slot, unless a launch of the slot makes it,
- what of a buffer is not there was written back since the last launch that changed it,
- a slot lasts as long as its launches compute, as what is fetched in it takes on the link, and as what is written back takes,
- the pass ends as it began: a buffer that the pass lets go hands on its share to the one that takes its place in the next pass.

Every real schedule does all of that, and the mean over its passes as well, so that no mean pass is shorter. The bound leaves out
pieces, in-flight room, the moment within a slot at which room is needed, padding, and the costs of calls.

The first pass after loading (--first) need not end as it began. It may begin with any content on the device that fits, and has a copy
of all content on the host, as if loading had left time for that. What has no content yet is made by the launch that names it first.
"""

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

UNIT = 1e6  # bytes of the program's variables: numbers near one are solved best


class Failure(Exception):
    """Something that the caller can mend."""


@dataclass
class Buffer:
    """What a pass does with one buffer; one without content might as well not have been there."""

    size: float  # in UNIT
    was_there: bool  # before the pass
    stays: bool  # after the pass
    uses: list = field(default_factory=list)  # (number of the launch, whether it changes it, whether it makes it)


def buffers_of(workload: dict, number: int) -> dict[int, Buffer]:
    """The buffers that pass `number` names, by handle. @raises Failure where there is no such pass, or none after it."""
    if number + 1 >= len(workload["passes"]):
        raise Failure(f"--launches has {len(workload['passes'])} passes, and {number + 2} are needed (virtual_time --passes)")
    launches, after = workload["passes"][number], workload["passes"][number + 1]
    named_after = {handle for launch in after for handle in launch["buffers"]}
    without_content = set(workload.get("without_content", [])) if number == 0 else set()
    found: dict[int, Buffer] = {}
    for index, launch in enumerate(launches):
        writes = set(launch["writes"])
        makes = set(launch["makes"]) | (without_content & set(launch["buffers"]))
        without_content -= makes
        for handle in launch["buffers"]:
            size = workload["sizes"][handle] / UNIT
            buffer = found.setdefault(handle, Buffer(size, handle not in makes, handle in named_after))
            buffer.uses.append((index, handle in writes, handle in makes))
    return {handle: buffer for handle, buffer in found.items() if buffer.size > 0}


class LinearProgram:
    """Least `cost` times the variables within their bounds, and sums of them within those of rows."""

    def __init__(self) -> None:
        self.cost: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.rows: list[tuple[float, float, list]] = []

    def variable(self, low: float = 0, high: float = float("inf"), cost: float = 0) -> int:
        self.cost.append(cost)
        self.low.append(low)
        self.high.append(high)
        return len(self.cost) - 1

    def at_least(self, terms: list, least: float) -> None:
        self._add_row(least, float("inf"), terms)

    def at_most(self, terms: list, most: float) -> None:
        self._add_row(float("-inf"), most, terms)

    def _add_row(self, least: float, most: float, terms: list) -> None:
        factors: dict[int, float] = {}
        for variable, factor in terms:
            factors[variable] = factors.get(variable, 0) + factor
        self.rows.append((least, most, list(factors.items())))

    def solve(self) -> float:
        """The least cost. @raises Failure where it is not found."""
        try:
            import highspy
            import numpy
        except ImportError as error:
            raise Failure("it needs highspy: pip install highspy") from error
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = len(self.cost), len(self.rows)
        program.col_cost_, program.col_lower_, program.col_upper_ = map(numpy.array, (self.cost, self.low, self.high))
        program.row_lower_ = numpy.array([low for low, _, _ in self.rows])
        program.row_upper_ = numpy.array([high for _, high, _ in self.rows])
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = numpy.cumsum([0] + [len(terms) for _, _, terms in self.rows])
        program.a_matrix_.index_ = numpy.array([variable for _, _, terms in self.rows for variable, _ in terms])
        program.a_matrix_.value_ = numpy.array([factor for _, _, terms in self.rows for _, factor in terms], dtype=float)
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("solver", "ipm")
        highs.setOptionValue("run_crossover", "off")
        highs.passModel(program)
        highs.run()
        if highs.getModelStatus() not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kUnknown):
            raise Failure(f"the bound was not found: {highs.modelStatusToString(highs.getModelStatus())}")
        return highs.getInfo().objective_function_value


class FluidPass:
    """The linear program of one pass, with times in seconds."""

    def __init__(self, launches: list, buffers: dict[int, Buffer], budget: float, link: float, slots: int, ends_as_begun: bool) -> None:
        """`budget` in bytes, `link` in bytes per second each way."""
        self.ends_as_begun = ends_as_begun
        count = min(slots, len(launches))
        self.begins = [slot * len(launches) // count for slot in range(count)]
        self.slots = range(count)
        self.program = LinearProgram()
        self.resident: list[list] = [[] for _ in self.slots]
        self.fetched: list[list] = [[] for _ in self.slots]
        self.written: list[list] = [[] for _ in self.slots]
        self.slot_of = [max(slot for slot in self.slots if self.begins[slot] <= index) for index in range(len(launches))]
        compute = [0.0] * count
        for index, launch in enumerate(launches):
            compute[self.slot_of[index]] += launch["compute_ms"] / 1e3
        time = [self.program.variable(low=seconds, cost=1) for seconds in compute]
        begun, ended = [], []
        for buffer in buffers.values():
            first, last = self.add(buffer)
            if buffer.was_there and not buffer.stays:
                begun.append((first, buffer.size))
            if buffer.stays and not buffer.was_there:
                ended.append((last, buffer.size))
        for (first, old), (last, new) in zip(begun, ended) if ends_as_begun else ():
            self.program.at_most([(first, 1 / old), (last, -1 / new)], 0)
        for slot in self.slots:
            self.program.at_most(self.resident[slot], budget / UNIT)
            for moved in (self.fetched[slot], self.written[slot]):
                self.program.at_most(moved + [(time[slot], -link / UNIT)], 0)

    def add(self, buffer: Buffer) -> tuple[int, int]:
        """@return the variables of what is there when the pass begins, and when it ends."""
        program = self.program
        uses: dict[int, list] = {}
        for use in buffer.uses:
            uses.setdefault(self.slot_of[use[0]], []).append(use)
        first, last = min(uses), max(uses)
        is_cyclic = self.is_cyclic(buffer)
        lives = self.slots[(0 if buffer.was_there else first):(None if buffer.stays else last + 1)]
        made = {slot for slot, of_slot in uses.items() if any(makes for _, _, makes in of_slot)}
        there: dict[int, int] = {}
        for slot in lives:
            is_named_at_once = any(index == self.begins[slot] for index, _, _ in uses.get(slot, []))
            is_not_yet_made = slot in made and not is_named_at_once
            low = buffer.size if is_named_at_once else 0
            there[slot] = program.variable(low, 0 if is_not_yet_made else buffer.size)
            self.resident[slot].append((there[slot], 1))
        if is_cyclic:
            after = {slot: there[(slot + 1) % len(self.slots)] for slot in lives}
        else:
            after = {slot: there[slot + 1] for slot in lives if slot + 1 in there}
            if buffer.stays:
                after[lives[-1]] = program.variable(0, buffer.size)
        for slot in lives:
            if slot in made:
                continue  # it comes to be: whatever is there then costs the link nothing
            fetched = program.variable()
            self.fetched[slot].append((fetched, 1))
            if slot in uses:
                program.at_least([(fetched, 1), (there[slot], 1)], buffer.size)
            if slot in after:
                program.at_most([(after[slot], 1), (there[slot], -1), (fetched, -1)], 0)
        self.add_write_backs(buffer, [slot for slot, of_slot in uses.items() if any(changes for _, changes, _ in of_slot)], lives, after)
        return there[lives[0]], after.get(lives[-1], there[lives[-1]])

    def is_cyclic(self, buffer: Buffer) -> bool:
        """Whether what is there of it when the pass ends is what is there when it begins."""
        return self.ends_as_begun and buffer.was_there and buffer.stays

    def add_write_backs(self, buffer: Buffer, changing: list[int], lives: range, after: dict[int, int]) -> None:
        """What is absent after a slot was written back since the slot before that changed it."""
        if not changing:
            return
        written = {slot: self.program.variable() for slot in lives}
        for slot in lives:
            self.written[slot].append((written[slot], 1))
        is_cyclic = self.is_cyclic(buffer)
        for number, begin in enumerate(changing):
            until = changing[(number + 1) % len(changing)]
            since, slot = [], begin
            for _ in lives:
                since.append((written[slot], 1))
                if slot in after:
                    self.program.at_least(since + [(after[slot], 1)], buffer.size)
                slot += 1
                if is_cyclic:
                    slot %= len(self.slots)
                if slot == until or slot not in written:
                    break

    def bound(self) -> float:
        """The seconds that a pass takes at least. @raises Failure."""
        return self.program.solve()


def fluid_bound(workload: dict, budget: float, link: float, slots: int, number: int | None = None) -> float:
    """The seconds that pass `number` of a workload of --launches takes at least, with `budget` bytes and a link of `link` bytes per
    second each way; 0: the first; None: the last but one, of those that are like the one before. @raises Failure."""
    steady = number is None
    number = max(0, len(workload["passes"]) - 2) if steady else number
    return FluidPass(workload["passes"][number], buffers_of(workload, number), budget, link, slots, ends_as_begun=steady).bound()


def read(path: Path) -> list[dict]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Failure(f"{path} cannot be read: {error}") from error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("launches", type=Path)
    parser.add_argument("figures", type=Path)
    parser.add_argument("--workload", action="append", help="default all")
    parser.add_argument("--budget", action="append", type=float, help="percent; default all that FIGURES has")
    parser.add_argument("--first", action="store_true", help="of the first pass after loading, not of the last but one")
    parser.add_argument("--slots", type=int, default=60, help="into which a pass is cut, default 60; more give a higher bound, and take longer")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    try:
        workloads = {workload["workload"]: workload for workload in read(options.launches)}
        rows = [row for row in read(options.figures) if row["policy"] == "auto" and row["error"] is None]
    except Failure as failure:
        print(f"fluid_bound.py: {failure}", file=sys.stderr)
        return 2
    found = []
    for row in rows:
        name, percent = row["workload"], row["budget_percent"]
        if (options.workload and name not in options.workload) or (options.budget and percent not in options.budget) or name not in workloads:
            continue
        try:
            bound = 1e3 * fluid_bound(workloads[name], row["budget_bytes"], row["link_gb_per_s"] * 1e9, options.slots,
                                      0 if options.first else None)
        except Failure as failure:
            print(f"fluid_bound.py: {name} with {percent:g} %: {failure}", file=sys.stderr)
            return 2 if "highspy" in str(failure) else 1
        pass_ms = row["first_pass_ms"] if options.first else row["steady"]["pass_ms"]
        windowed_ms = row["first_pass_bound_ms"] if options.first else row["windowed_bound_ms"]
        found.append({"workload": name, "budget_percent": percent, "windowed_bound_ms": windowed_ms, "fluid_bound_ms": bound,
                      "pass_ms": pass_ms})
        print(f"{name} with {percent:g} %: windowed bound {windowed_ms:.1f} ms, fluid bound {bound:.1f} ms, auto {pass_ms:.1f} ms, "
              f"{pass_ms / bound:.3f} times the fluid bound", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
