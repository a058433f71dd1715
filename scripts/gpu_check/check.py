"""What the steps share: how a program is run with and without superpipe, and where results are kept."""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import process
from driver import Driver
from layout import Layout
from machine import DeviceMemoryWatch, available_host_bytes
from results import FAILED, PASSED, RUNNING, TIMED_OUT, Folder

MIB = 1 << 20
GIB = 1 << 30
HEADROOM = "64M"
OWN_PREFIXES = ("SUPERPIPE_", "SIMGPU_", "LD_")
# Links and kernels so fast that nothing waits for modelled time: for what is computed, not for when.
FAST = {"SIMGPU_H2D_GBPS": "1000", "SIMGPU_D2H_GBPS": "1000", "SIMGPU_D2D_GBPS": "1000", "SIMGPU_KERNEL_US": "1"}


# simgpu's times count as modelled only where the machine kept up with the model: of the time for which the simulated
# engines were busy, no more than this may be lateness.
MOST_OVERRUN = 0.01


class StepSkipped(Exception):
    """The step cannot run here; the text says why."""


class OutOfTime(Exception):
    """The step's time is nearly over; what it has is kept, and --resume goes on."""


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    root: Path
    simulate: bool = False
    short: bool = False
    model: str = ""
    host_bytes: int = 0  # 0: what is available

    def identity(self) -> dict:
        """What must be the same for results to belong together."""
        return {"simulate": self.simulate, "short": self.short, "model": self.model}


@dataclass
class Run:
    """One program that ran, with what all witnesses say of it."""

    finished: process.Finished
    files: dict[str, bytes] = field(default_factory=dict)  # what it wrote into {out}
    stats: dict = field(default_factory=dict)  # superpipe's own; empty without superpipe
    simulated: dict = field(default_factory=dict)  # simgpu's; empty on hardware
    memory: dict = field(default_factory=dict)  # device memory as NVIDIA's management library sees it

    @property
    def problem(self) -> str:
        return self.finished.problem

    @property
    def stdout(self) -> str:
        return self.finished.stdout

    def in_time(self) -> bool:
        """Whether the times of this run mean something: always on hardware, else if the machine kept up with simgpu's model."""
        return self.simulated.get("overrun_share", 0.0) <= MOST_OVERRUN

    def peak_bytes(self) -> int | None:
        """Peak device memory as the driver sees it, with context; None where no one can tell."""
        if self.simulated:
            return self.simulated.get("peak_bytes")
        return self.memory.get("driver_peak_bytes")


def difference(managed: Run, reference: Run) -> str:
    """One line on how a run under superpipe differs from the one without; empty if its bytes are the same."""
    if managed.problem and managed.finished.returncode != reference.finished.returncode:
        return f"under superpipe: {managed.problem}"
    if managed.finished.returncode != reference.finished.returncode:
        return (f"exit code {managed.finished.returncode} under superpipe, {reference.finished.returncode} without")
    if managed.files.keys() != reference.files.keys():
        return f"wrote {sorted(managed.files)} under superpipe, {sorted(reference.files)} without"
    for name, content in reference.files.items():
        if managed.files[name] != content:
            return f"the file {name} has other bytes under superpipe"
    ours, theirs = managed.stdout.splitlines(), reference.stdout.splitlines()
    for line, (a, b) in enumerate(zip(ours, theirs), 1):
        if a != b:
            return f"line {line} of its output is '{a[:80]}' under superpipe, '{b[:80]}' without"
    if len(ours) != len(theirs):
        return f"{len(ours)} lines of output under superpipe, {len(theirs)} without"
    return ""


class Context:
    """One step at work."""

    def __init__(self, step: str, options: Options, driver: Driver, folder: Folder, limit: float) -> None:
        self.step = step
        self.options = options
        self.driver = driver
        self.folder = folder
        self.layout = Layout(options.root)
        self.simulated = options.simulate or driver.is_simulated
        self._deadline = time.monotonic() + limit
        self._longest: dict[str, float] = {}
        before = folder.step(step)
        self.value = {"step": step, "status": RUNNING, "reason": "", "simulated": self.simulated, "device": driver.device,
                      "short": options.short, "cells": before.get("cells", {}) if before.get("status") != FAILED else {}}
        self.folder.write_step(step, self.value)

    # What a step has found.

    def time_left(self) -> float:
        return self._deadline - time.monotonic()

    def note(self, **figures: object) -> None:
        """Adds to the step's result beside its cells."""
        self.value.update(figures)
        self.folder.write_step(self.step, self.value)

    def cell(self, name: str, measure: Callable[[], dict]) -> dict:
        """The figures of one cell: those of an earlier attempt, or `measure`'s, kept from then on.

        A cell with a `problem` has failed. Cells of a kind (the name up to the first '/') take about the same time: none
        is begun that would not end before the step's limit.
        """
        if name in self.value["cells"]:
            return self.value["cells"][name]
        kind = name.partition("/")[0]
        if self.time_left() < 1.3 * self._longest.get(kind, 0) + 2:
            raise OutOfTime(f"{len(self.value['cells'])} cells done, '{name}' would not end in time; --resume goes on")
        begin = time.monotonic()
        figures = measure()
        seconds = time.monotonic() - begin
        self._longest[kind] = max(self._longest.get(kind, 0), seconds)
        figures = {"problem": "", **figures, "seconds": round(seconds, 3)}
        print(f"{name}: {figures['problem'] or 'ok'} ({seconds:.1f} s)", flush=True)
        self.value["cells"][name] = figures
        self.folder.write_step(self.step, self.value)
        return figures

    def problems(self) -> list[str]:
        return [f"{name}: {cell['problem']}" for name, cell in self.value["cells"].items() if cell.get("problem")]

    def finish(self, reason: str = "") -> None:
        """Ends the step: failed if any cell has a problem, else passed with `reason` as a remark."""
        problems = self.problems()
        self.value["status"] = FAILED if problems else PASSED
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        self.value["reason"] = problems[0] + more if problems else reason
        self.folder.write_step(self.step, self.value)

    def stop(self, status: str, reason: str) -> None:
        self.value["status"], self.value["reason"] = status, reason
        self.folder.write_step(self.step, self.value)

    def out_of_time(self, reason: str) -> None:
        self.stop(TIMED_OUT, reason)

    # Programs.

    def need_host_memory(self, needed: int, what: str) -> None:
        """Skips the step where the host has less than `needed` bytes to spare."""
        # Some machines' memory grows as it is used: what the user says is believed.
        usable = self.options.host_bytes or available_host_bytes()
        if usable and usable < needed:
            raise StepSkipped(f"too little host memory: {what} needs {needed / GIB:.1f} GiB, {usable / GIB:.1f} GiB can be used")

    def environment(self, **more: object) -> dict[str, str]:
        """The variables of a child: this process's, without any that change what superpipe or simgpu do."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(OWN_PREFIXES) or name == "SUPERPIPE_SHARED_FOLDER"}
        if self.options.host_bytes:
            kept["SUPERPIPE_HOST_MEM"] = str(self.options.host_bytes)
        if not self.simulated:
            # Left to itself it depends on the budget, and budgets here are computed from other runs'.
            kept["SUPERPIPE_HEADROOM"] = HEADROOM
        if not self.options.simulate:
            for name in ("SUPERPIPE_DRIVER", "LD_LIBRARY_PATH"):
                if name in os.environ:
                    kept[name] = os.environ[name]
        return {**kept, **{name: str(value) for name, value in more.items()}}

    def execute(self, command: list, environment: dict[str, str], limit: float) -> process.Finished:
        """Runs a command for `limit` seconds at most; the end of the step's time before that is no fault of the command."""
        left = max(0.1, self.time_left())
        finished = process.run(command, environment, min(limit, left))
        if finished.timed_out and left < limit:
            raise OutOfTime(f"{len(self.value['cells'])} cells done, {Path(str(command[0])).name} was still running; "
                            "--resume goes on")
        return finished

    def run(self, command: list, flags: tuple = (), managed: bool = True, limit: float = 120, plugin: str = "",
            watch: bool = False, simulated: dict[str, str] | None = None, **more: object) -> Run:
        """`superpipe run FLAGS -- COMMAND` on the device of this check; without `managed`, with superpipe switched off.

        "{out}" in a word of the command is a folder made for the run. `simulated` are variables for simgpu alone, and
        `plugin` the kernels that it needs where they do not lie beside the program.
        """
        with tempfile.TemporaryDirectory(prefix="superpipe-check-") as temporary:
            out = Path(temporary) / "out"
            out.mkdir()
            stats, driver_stats = Path(temporary) / "stats.json", Path(temporary) / "simgpu.json"
            environment = self.environment(**more)
            if self.simulated:
                environment.update({**FAST, **(simulated or {}), "SIMGPU_STATS": str(driver_stats)})
                if plugin:
                    environment["SIMGPU_KERNELS"] = str(self.layout.program(plugin))
            if managed:
                environment["SUPERPIPE_STATS"] = str(stats)
            else:
                environment["SUPERPIPE_OFF"] = "1"
            words = [str(word).replace("{out}", str(out)) for word in command]
            line = [self.layout.superpipe, "run", *(["--simulate"] if self.options.simulate else []), *flags, "--", *words]
            with DeviceMemoryWatch(watch and not self.simulated) as memory:
                finished = self.execute(line, environment, limit)
            if finished.problem:
                print(f"$ {' '.join(map(str, line))}\n{finished.stdout[-2000:]}{finished.stderr[-4000:]}", flush=True)
            files = {path.name: path.read_bytes() for path in sorted(out.iterdir()) if path.is_file()}
            return Run(finished, files, read(stats), read(driver_stats), memory.figures())

    def answer(self, run: Run) -> dict:
        """The JSON object that a program printed; empty where it printed none."""
        return self.answer_of(run.stdout)

    @staticmethod
    def answer_of(output: str) -> dict:
        """The same of what a program printed: one line or several, behind other lines or not."""
        for text in (output, *output.strip().splitlines()[-1:]):
            try:
                return json.loads(text)
            except ValueError:
                continue
        return {}


def read(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
