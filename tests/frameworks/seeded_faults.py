"""The part "faults" of frameworks_tests.py: wrong versions of superpipe, in each of which the twin has to find what is wrong.

Each is built under build/seeded-faults, from a copy of the sources; the first build takes minutes.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from simulated_torch import Build

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "build" / "seeded-faults"
LIST = HERE / "seeded_faults.json"
# Bytes take long to come out, so that what does not wait for them comes before.
SLOW_WRITE_BACKS = {"SIMGPU_D2H_GBPS": "1"}

sys.path.insert(0, str(ROOT / "scripts"))

from changed_sources import ChangedSources, check  # noqa: E402


def programs() -> list[str]:
    """On which each fault is judged."""
    return json.loads(LIST.read_text())["programs"]


def with_library(build: Build, library: Path) -> Build:
    """What `build` is, but for the library that is preloaded."""
    folder = WORK / "assembled"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    libraries = folder / "lib" / "superpipe"
    libraries.mkdir(parents=True)
    shutil.copy(build.command, folder / "bin")  # a link would find its library beside the original
    shutil.copy(library, libraries)
    for entry in (build.folder / "lib" / "superpipe").iterdir():
        if entry.name != library.name:
            (libraries / entry.name).symlink_to(entry)
    (folder / "tests").symlink_to(build.folder / "tests")
    return Build(folder)


def judge(runner, fault: dict, program: str, allocator: str) -> None:
    """Runs `program` on the wrong version that has been built, at a fraction of its peak, and adds a row."""
    free = runner.peak(program, allocator)
    answer = runner.child(program, twin=True, allocator=allocator, managed=True, budget=free * runner.options.fraction // 100,
                          reference=True, environment=SLOW_WRITE_BACKS)
    # A fault can also take memory away that is still in use, which the simulated driver reports by itself.
    found = answer.get("twin", {}).get("found") or [line for line in answer.get("said", []) if "which is not mapped" in line]
    problem = None if found else f"NOT FOUND; {answer.get('error', 'the program ended as it should')}"
    runner.row("faults", f"{fault['name']}: {program}, {allocator}", problem, "; ".join(found)[:200], [answer])


def run(runner) -> None:
    """Builds each fault and judges each program on it. @raises changed_sources.Failure if a fault does not fit or build."""
    listed = json.loads(LIST.read_text())
    faults = [fault for fault in listed["faults"] if runner.options.fault in fault["name"]]
    check(faults, LIST)
    # One allocator is enough: what is judged is the twin. The native one is the first of all, and makes superpipe move most.
    cases = [(program, runner.options.allocators[0]) for program in programs()]
    right = runner.build
    sources = ChangedSources(WORK, ["superpipe"], runner.options.jobs)
    sources.copy()
    runner.cases(runner.peak, cases)
    try:
        for fault in faults:
            with sources.changed(fault, LIST):
                sources.build()
            runner.build = with_library(right, sources.binary / "lib" / "superpipe" / "libsuperpipe.so")
            runner.cases(lambda program, allocator, fault=fault: judge(runner, fault, program, allocator), cases)
    finally:
        runner.build = right
