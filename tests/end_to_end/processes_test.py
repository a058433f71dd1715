"""Several programs on one device and one host: each keeps to its budget and gets its part, and one that is killed leaves nothing."""

import json
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

from live_budget_test import PATIENCE, N, LAYER, Program, segment
from simulated_run import BUILD, MIB, SUPERPIPE, EndToEndCase, run

# A piece of 2 MiB takes 20 ms on the link, so that it bounds a pass of programs that share it, and any machine keeps up.
LINK = 0.1  # GB/s
SLOW = {"SIMGPU_H2D_GBPS": str(LINK), "SIMGPU_D2H_GBPS": str(LINK)}
ALONE, PASSES = 4, 20
NEEDED = N * LAYER * MIB
BUDGET = 8 * MIB
LONG = 3000  # passes: killed when the test has seen enough
LOOKS = 3  # at rates: another program of this machine may spoil one, but a defect spoils all


def shown(seconds: float = 0.1) -> dict[int, dict]:
    """What `superpipe top` shows of each process, with rates over so many seconds."""
    said = subprocess.run([str(SUPERPIPE), "top", "--once", "--json", "--interval", str(seconds)], capture_output=True, text=True,
                          timeout=PATIENCE)
    return {process["pid"]: process for process in json.loads(said.stdout)["processes"]}


def taken(process: dict) -> int:
    """What it takes of the device, in bytes, by what `superpipe top` shows of it."""
    return process["pages_bytes"] + process["context_bytes"] + process["passthrough_bytes"]


class OneDevice(EndToEndCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-shared-")
        self.addCleanup(folder.cleanup)
        self.shared = {"SIMGPU_SHARED_FILE": str(Path(folder.name) / "devices")}

    def looks(self, *programs: Program) -> list[dict]:
        """What `superpipe top` shows of them over some seconds, once each has learned its order."""
        deadline = time.monotonic() + PATIENCE
        while True:
            self.assertLess(time.monotonic(), deadline, "a program did not come so far")
            seen = shown()
            if all(seen.get(program.pid, {}).get("counts", {"passes": 0})["passes"] > 3 for program in programs):
                break
        seen = shown(4)
        return [seen[program.pid] for program in programs]

    def test_two_get_half_of_the_link_each_and_the_last_all_of_it(self) -> None:
        flags = ("--gpu-mem", str(BUDGET))
        with Program(*flags, passes=LONG, **SLOW, **self.shared) as one, Program(*flags, passes=LONG, **SLOW, **self.shared) as other:
            # Together they keep it busy.
            self.assert_rates(lambda rates: abs(rates[0] / rates[1] - 1) < 0.1 and sum(rates) > 0.9, one, other)
            other.process.kill()
            other.process.wait()
            # Alone, a program with little room waits for a page now and then.
            self.assert_rates(lambda rates: rates[0] > 0.75, one)

    def assert_rates(self, expected: Callable[[list[float]], bool], *programs: Program) -> None:
        """What each of the programs gets of the link is as expected, and each keeps to its budget meanwhile."""
        seen = []
        while not seen or (not expected(seen[-1]) and len(seen) < LOOKS):
            looks = self.looks(*programs)
            for look in looks:
                self.assertLessEqual(taken(look), BUDGET)
            seen.append([look["rates"]["h2d_bytes_per_second"] / LINK / 1e9 for look in looks])
        self.assertTrue(expected(seen[-1]), f"{seen} of the link")

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

    def start(self, passes: int) -> Program:
        return Program("--gpu-mem", str(BUDGET), passes=passes, moves=False, SUPERPIPE_HOST_LEDGER=str(self.folder),
                       LD_PRELOAD=str(BUILD / "tests" / "meminfo_shim.so"), MEMINFO=str(self.meminfo))

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
        self.assertEqual(list(self.folder.iterdir()), [self.meminfo], "the last to leave removes the ledger")

    def watch(self, programs: list[Program]) -> None:
        """Until the host memory of as many as fit is pinned; at each look within the cap, and each program within its budget."""
        pids = {program.pid for program in programs}
        deadline = time.monotonic() + PATIENCE
        streaming = exceeding = 0
        while streaming < self.FITTING:
            self.assertLess(time.monotonic(), deadline, f"{streaming} programs came to stream")
            seen = [process for pid, process in shown().items() if pid in pids and "counts" in process]
            pinned = [process["pinned_host_bytes"] for process in seen]
            self.assertLessEqual(max(map(taken, seen), default=0), BUDGET)
            # One look reads process after process, while memory of one that was refused becomes another's.
            exceeding = exceeding + 1 if sum(pinned) > self.cap else 0
            self.assertLess(exceeding, 2, f"{pinned} of {self.cap} bytes")
            running = {program.pid for program in programs if program.process.poll() is None}
            streaming = sum(process["pid"] in running and process["counts"]["passes"] > 2 for process in seen)


if __name__ == "__main__":
    unittest.main()
