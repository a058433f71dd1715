"""Several programs on one device and one host: each keeps to its budget and gets its part, and one that is killed leaves nothing."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from live_budget_test import LAYER, N, Program, ProgramCase
from simulated_run import BUILD, LIMIT, MIB, SUPERPIPE, EndToEndCase, layers, run
from hermetic import segment_of, wait_until

# So slow a link that pieces of several programs wait for each other: one of 2 MiB takes 20 ms.
SLOW = {"SIMGPU_H2D_GBPS": "0.1", "SIMGPU_D2H_GBPS": "0.1"}
NEEDED = N * LAYER * MIB
BUDGET = 8 * MIB


def shown() -> dict[int, dict]:
    """What `superpipe top` shows of each process."""
    said = subprocess.run([str(SUPERPIPE), "top", "--once", "--json", "--interval", "0.1"],
                          capture_output=True, text=True,
                          timeout=LIMIT)
    return {process["pid"]: process for process in json.loads(said.stdout)["processes"]}


def taken(process: dict) -> int:
    """What it takes of the device, in bytes, by what `superpipe top` shows of it."""
    return process["pages_bytes"] + process["context_bytes"] + process["passthrough_bytes"]


class OneDevice(ProgramCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-device-")
        self.addCleanup(folder.cleanup)
        self.shared = {"SIMGPU_SHARED_FILE": str(Path(folder.name) / "devices")}

    def wait_for_passes(self, more: int, *programs: Program) -> None:
        """Until each has made so many more passes of which it knows what they took; each keeps to
        its budget meanwhile."""
        begun: dict[int, int] = {}

        def have_come_so_far() -> bool:
            seen = shown()
            for program in programs:
                self.assertLessEqual(taken(seen[program.pid]), BUDGET)
                begun.setdefault(program.pid, seen[program.pid]["counts"]["passes"])
            return all(seen[program.pid]["counts"]["passes"] >= begun[program.pid] + more
                       for program in programs)

        wait_until(have_come_so_far, "a program stands still")

    def test_two_that_share_the_link_stream_side_by_side_and_the_last_goes_on(self) -> None:
        flags = ("--gpu-mem", str(BUDGET))
        with Program(*flags, **SLOW, **self.shared) as one, Program(*flags, **SLOW,
                                                                    **self.shared) as other:
            self.wait_for_passes(3, one, other)
            other.process.kill()
            other.process.wait()
            self.wait_for_passes(3, one)
            self.assert_computed_the_same(one.finish())

    def test_without_a_budget_they_share_its_memory(self) -> None:
        memory = {"SIMGPU_MEMORY": str(2 * NEEDED - 4 * MIB), **self.shared}
        with Program(**memory) as one, Program(**memory) as other:
            outcomes = [one.finish(), other.finish()]
        for outcome in outcomes:
            self.assert_computed_the_same(outcome)

    def test_one_that_is_killed_leaves_its_memory_and_its_part_of_the_link(self) -> None:
        memory = {"SIMGPU_MEMORY": str(NEEDED * 2), **SLOW, **self.shared}
        with Program("--gpu-mem", str(NEEDED), **memory) as killed:
            killed.process.kill()
            killed.process.wait()
            outcome = run(layers(N, LAYER), "--gpu-mem", str(NEEDED * 2), environment=memory)
            self.assert_succeeded(outcome)
            self.assertGreater(outcome.peak, NEEDED)
            self.assertNotIn(killed.pid, shown())
            self.assertFalse(segment_of(killed.pid).exists())


class OneRun(EndToEndCase):
    """Several processes that one command starts: each has its statistics and its lines."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-one-run-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_two(self, name: str, *environments: str) -> tuple[dict[str, dict], str]:
        """The statistics files of two processes, one after the other, by name, and what was
        said."""
        program = " ".join(map(str, layers(2, LAYER)[:-2]))
        lines = "; ".join(f"{environment} {program}" for environment in environments)
        outcome = run(["sh", "-c", f"{lines}; exit 0"], "--stats", str(self.folder / name))
        self.assert_succeeded(outcome)
        read = {path.name: json.loads(path.read_text()) for path in self.folder.iterdir()}
        return read, outcome.stderr

    def test_files_and_lines_of_two_processes_are_told_apart(self) -> None:
        (self.folder / "stats.json").write_text("{}")
        read, said = self.run_two("stats.json", "", "")
        self.assertEqual(len(read), 2, read.keys())
        second = next(one for name, one in read.items() if name != "stats.json")
        self.assertIn(f"stats.json.{second['process']}", read)
        self.assertNotEqual(read["stats.json"]["process"], second["process"])
        for one in read.values():
            self.assertIn(f"superpipe: process {one['process']}: peak device memory", said)

    def test_ranks_write_files_of_their_own_names(self) -> None:
        read, said = self.run_two("stats.%r.json", "RANK=0", "RANK=1")
        self.assertEqual({name: one["rank"] for name, one in read.items()},
                         {"stats.0.json": 0, "stats.1.json": 1})
        for rank in (0, 1):
            self.assertIn(f"superpipe: rank {rank}, process ", said)

    def test_only_the_first_rank_takes_a_name_that_all_have(self) -> None:
        read, _ = self.run_two("stats.json", "RANK=1", "RANK=0")
        self.assertEqual(read["stats.json"]["rank"], 0)
        self.assertEqual({one["rank"] for one in read.values()}, {0, 1})

    def test_the_driver_is_superpipe_by_its_name_without_a_version_too(self) -> None:
        opens = ("import ctypes; driver = ctypes.CDLL('libcuda.so'); driver.superpipe_version; "
                 "assert driver.cuInit(0) == 0")
        outcome = run([sys.executable, "-c", opens])
        self.assert_succeeded(outcome)
        self.assertEqual(outcome.stderr, "")

    def test_a_process_by_itself_takes_the_name_and_says_no_other(self) -> None:
        (self.folder / "stats.json").write_text("{}")
        outcome = run(layers(2, LAYER), "--stats", str(self.folder / "stats.json"))
        self.assert_succeeded(outcome)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["stats.json"])
        self.assertIn("superpipe: peak device memory", outcome.stderr)


class OneHost(EndToEndCase):
    """A cap of host memory for all that half of eight programs fit."""

    EIGHT, FITTING = 8, 4

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-ledger-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.cap = NEEDED * self.FITTING + NEEDED // 2
        # What is available is enough for one program, and the cap does not rise.
        self.meminfo = self.folder / "meminfo"
        self.meminfo.write_text(f"MemTotal: 16777216 kB\nMemAvailable: {NEEDED * 9 // 8 >> 10} kB\n")
        self.holder = subprocess.Popen([BUILD / "tests" / "ledger_holder", self.folder, str(self.cap)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.leave)
        self.assertEqual(self.holder.stdout.readline(), "joined\n")

    def leave(self) -> None:
        if self.holder.poll() is None:
            self.holder.communicate()
        self.holder.stdout.close()

    def start(self) -> Program:
        program = Program("--gpu-mem", str(BUDGET), moves=False,
                          SUPERPIPE_SHARED_FOLDER=str(self.folder),
                          SUPERPIPE_HOST_LEDGER="shared",
                          LD_PRELOAD=str(BUILD / "tests" / "meminfo_shim.so"),
                          MEMINFO=str(self.meminfo))
        self.addCleanup(program.__exit__)
        return program

    def shown(self) -> dict[int, dict]:
        said = subprocess.run([str(SUPERPIPE), "top", "--once", "--json", "--interval", "0.1"],
                              capture_output=True, text=True,
                              timeout=LIMIT,
                              env={**os.environ, "SUPERPIPE_SHARED_FOLDER": str(self.folder)})
        return {process["pid"]: process for process in json.loads(said.stdout)["processes"]
                if "counts" in process}

    def test_eight_programs_stay_within_the_cap_and_may_be_killed(self) -> None:
        programs = [self.start() for _ in range(self.EIGHT)]
        wait_until(lambda: self.have_come_so_far(programs), "some neither stream nor end")
        refused = [program for program in programs if program.process.poll() is not None]
        # How many there are at least: of those that fit, some may have been refused while one that
        # was, too, still had its part.
        self.assertGreaterEqual(len(refused), self.EIGHT - self.FITTING)
        for program in refused:
            outcome = program.finish()
            self.assertEqual(outcome.returncode, 1, outcome.stderr)
            self.assertIn("other processes", outcome.stderr)
        for program in programs:
            program.__exit__()
        again = [self.start() for _ in range(self.FITTING)]
        wait_until(lambda: self.have_come_so_far(again), "some neither stream nor end")
        for program in again:
            self.assert_succeeded(program.finish())
        self.leave()
        self.assertEqual({path.name for path in self.folder.iterdir()},
                         {self.meminfo.name, f"superpipe-links-{os.geteuid()}"},
                         "the last to leave removes the ledger")

    def have_come_so_far(self, programs: list[Program]) -> bool:
        """Whether each program streams or has ended. Now they are within the cap, and each within
        its budget."""
        ended = {program.pid for program in programs if program.process.poll() is not None}
        seen = self.shown()
        for process in seen.values():
            self.assertLessEqual(taken(process), BUDGET)
        # What is there of the ledger is of one moment.
        (ledger,) = self.folder.glob("superpipe-host-*")
        reserved = [entry[4] for entry in struct.iter_unpack("=QQQQQ", ledger.read_bytes()[64:])]
        self.assertLessEqual(sum(reserved), self.cap)
        streaming = {pid for pid, process in seen.items() if process["counts"]["passes"] > 2}
        return all(program.pid in ended | streaming for program in programs)


if __name__ == "__main__":
    unittest.main()
