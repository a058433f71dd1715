"""Several programs on one device and one host: each keeps to its budget and gets its part, and one that is killed leaves nothing."""

import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from live_budget_test import PATIENCE, N, LAYER, Program, segment
from simulated_run import BUILD, MIB, SUPERPIPE, EndToEndCase, Outcome, run

# A piece of 2 MiB takes 20 ms on the link, so that it bounds a pass of programs that share it, and any machine keeps up.
LINK = 0.1  # GB/s
SLOW = {"SIMGPU_H2D_GBPS": str(LINK), "SIMGPU_D2H_GBPS": str(LINK)}
ALONE, PASSES = 10, 20
NEEDED = N * LAYER * MIB
LATENESS = 0.05  # half of what the shares may be off
LONG = 3000  # passes: killed when the test has seen enough


def shown() -> dict[int, dict]:
    """What `superpipe top` shows of each process."""
    said = subprocess.run([str(SUPERPIPE), "top", "--once", "--json", "--interval", "0.1"], capture_output=True, text=True,
                          timeout=PATIENCE)
    return {process["pid"]: process for process in json.loads(said.stdout)["processes"]}


def pass_times(outcome: Outcome) -> list[float]:
    return [float(found) for found in re.findall(r"^pass \d+: ([\d.]+) ms", outcome.stdout, re.MULTILINE)]


class OneDevice(EndToEndCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-shared-")
        self.addCleanup(folder.cleanup)
        self.shared = {"SIMGPU_SHARED_FILE": str(Path(folder.name) / "devices")}

    def in_time(self, *outcomes: Outcome) -> None:
        if any(outcome.driver["overrun_share"] > LATENESS for outcome in outcomes):
            self.skipTest("this machine was slower than simgpu's model, by " + ", ".join(
                f"{outcome.driver['overrun_share']:.1%}" for outcome in outcomes))

    def test_each_of_two_gets_half_of_the_link(self) -> None:
        budget = 8 * MIB
        with Program("--gpu-mem", str(budget), passes=PASSES, **SLOW, **self.shared) as one, \
                Program("--gpu-mem", str(budget), passes=PASSES, **SLOW, **self.shared) as other:
            outcomes = [one.finish(), other.finish()]
        for outcome in outcomes:
            self.assert_succeeded(outcome)
            self.assertLessEqual(outcome.peak, budget)
        self.in_time(*outcomes)
        # The first passes are learned, and the one begins, and ends, some passes before the other does.
        for outcome in outcomes:
            of_pass = outcome.stats["h2d_bytes"] / PASSES
            rate = of_pass / statistics.fmean(pass_times(outcome)[5:-5]) / 1e6
            self.assertLess(abs(rate / (LINK / 2) - 1), 0.1, f"{rate} GB/s of {LINK}")

    def test_without_a_budget_they_share_its_memory(self) -> None:
        reference = run(Program.command(PASSES), without_superpipe=True)
        memory = {"SIMGPU_MEMORY": str(2 * NEEDED - 4 * MIB), **self.shared}
        with Program(passes=PASSES, **memory) as one, Program(passes=PASSES, **memory) as other:
            outcomes = [one.finish(), other.finish()]
        for outcome in outcomes:
            self.assert_same_output(outcome, reference)

    def test_one_that_is_killed_leaves_its_memory_and_its_part_of_the_link(self) -> None:
        memory = {"SIMGPU_MEMORY": str(NEEDED * 2), **SLOW, **self.shared}
        with Program("--gpu-mem", str(NEEDED), passes=LONG, **memory) as killed:
            killed.process.kill()
            killed.process.wait()
            outcome = run(Program.command(ALONE), "--gpu-mem", str(NEEDED * 2), environment=memory)
            self.assert_succeeded(outcome)
            self.assertGreater(outcome.peak, NEEDED)
            self.assertNotIn(killed.pid, shown())
            self.assertFalse(segment(killed.pid).exists())


class OneHost(EndToEndCase):
    """A cap of host memory for all that half of eight programs fit."""

    EIGHT, FITTING = 8, 4

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-ledger-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.cap = NEEDED * self.FITTING + NEEDED // 2
        self.holder = subprocess.Popen([BUILD / "tests" / "ledger_holder", self.folder, str(self.cap)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.leave)
        self.assertEqual(self.holder.stdout.readline(), "joined\n")

    def leave(self) -> None:
        if self.holder.poll() is None:
            self.holder.communicate()
        self.holder.stdout.close()

    def start(self, passes: int) -> Program:
        return Program("--gpu-mem", "8M", passes=passes, moves=False, SUPERPIPE_HOST_LEDGER=str(self.folder))

    def test_eight_programs_stay_within_the_cap_and_may_be_killed(self) -> None:
        programs = [self.start(LONG) for _ in range(self.EIGHT)]
        try:
            self.watch(programs)
            refused = [program for program in programs if program.process.poll() is not None]
            for program in refused:
                outcome = program.finish()
                self.assertEqual(outcome.returncode, 1, outcome.stderr)
                self.assertIn("other processes", outcome.stderr)
            for program in programs:
                if program not in refused:
                    program.process.kill()
                    program.process.wait()
            again = [self.start(ALONE) for _ in range(self.FITTING)]
            programs += again
            for program in again:
                self.assert_succeeded(program.finish())
        finally:
            for program in programs:
                program.__exit__()
        self.leave()
        self.assertEqual(list(self.folder.iterdir()), [], "the last to leave removes the ledger")

    def watch(self, programs: list[Program]) -> None:
        """Until the host memory of as many as fit is pinned; at each look within the cap."""
        pids = {program.pid for program in programs}
        deadline = time.monotonic() + PATIENCE
        streaming = 0
        while streaming < self.FITTING:
            self.assertLess(time.monotonic(), deadline, f"{streaming} programs came to stream")
            seen = [process for pid, process in shown().items() if pid in pids and "counts" in process]
            pinned = [process["pinned_host_bytes"] for process in seen]
            self.assertLessEqual(sum(pinned), self.cap)
            running = {program.pid for program in programs if program.process.poll() is None}
            streaming = sum(process["pid"] in running and process["counts"]["passes"] > 2 for process in seen)


if __name__ == "__main__":
    unittest.main()
