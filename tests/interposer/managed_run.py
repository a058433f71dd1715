"""Runs a program of programs/ on simgpu, with and without superpipe, and collects what all three say."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT, clean_environment  # noqa: E402  (found through the path above)

BUILD = Path(os.environ["SUPERPIPE_BUILD_DIR"])
LIBRARY = BUILD / "lib" / "superpipe" / "libsuperpipe.so"
SIMGPU = BUILD / "lib" / "superpipe" / "simgpu"
PROGRAMS = BUILD / "tests" / "interposer"
KERNELS = PROGRAMS / "kernels.fatbin"
MIB = 1 << 20
# Of the budget, for what the driver takes between two samples. As with `superpipe run --simulate`.
HEADROOM = 2 * MIB


def environment_in(folder, *, managed=True, **variables):
    """The environment of a run whose statistics go to `folder`. It shares no host memory."""
    environment = clean_environment("LD_PRELOAD")
    environment.update(
        LD_LIBRARY_PATH=str(SIMGPU), SIMGPU_STATS=f"{folder}/simgpu.json",
        SIMGPU_KERNELS=str(PROGRAMS / "kernels_plugin.so"), SIMGPU_MEMORY="256M",
        SIMGPU_HOST_FUNCTIONS="serial")  # a driver may run them so
    if managed:
        environment.update(
            LD_PRELOAD=str(LIBRARY), SUPERPIPE_DRIVER=str(SIMGPU / "libcuda.so.1"),
            SUPERPIPE_FILL="zero", SUPERPIPE_HEADROOM=str(HEADROOM), SUPERPIPE_STATS=f"{folder}/superpipe.json",
            SUPERPIPE_HOST_LEDGER="none")
    # The preload comes before the program's own sanitizer runtime, which is the same one.
    environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0"
    environment.update({name: str(value) for name, value in variables.items()})
    return environment


# Said where the simulated link stands still for half a second, as it does on a machine that is busy enough.
LATE_CONTENT = re.compile(r"superpipe: content had not arrived on the device after \d+ ms [^\n]*\n")


class Run:
    """One run of a program's scenario, with what it and simgpu and superpipe say about it."""

    def __init__(self, program, scenario, *arguments, managed=True, **variables):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [str(PROGRAMS / program), scenario, str(KERNELS), *map(str, arguments)],
                env=environment_in(folder, managed=managed, **variables), capture_output=True,
                text=True, check=False, timeout=LIMIT)
            self.code, self.output, self.errors = (result.returncode, result.stdout, result.stderr)
            self.simgpu = self._read(f"{folder}/simgpu.json")
            self.statistics = self._read(f"{folder}/superpipe.json")
            self.files = sorted(os.listdir(folder))

    @staticmethod
    def _read(path):
        return json.loads(Path(path).read_text()) if Path(path).exists() else None


class ManagedCase(unittest.TestCase):
    """Compares runs of `PROGRAM`."""

    PROGRAM = "managed_program"

    def run_managed(self, scenario, *arguments, **variables):
        return Run(self.PROGRAM, scenario, *arguments, **variables)

    _without_superpipe = {}

    def without_superpipe(self, scenario, *arguments):
        """What the program does by itself, run once for all tests: it does the same each time."""
        key = (self.PROGRAM, scenario, *arguments)
        if key not in self._without_superpipe:
            self._without_superpipe[key] = Run(*key, managed=False)
        run = self._without_superpipe[key]
        self.assertEqual(run.code, 0, run.output + run.errors)
        return run

    def assert_same(self, scenario, *arguments, says="", **variables):
        """Runs `scenario` managed; its output must be that of the run without superpipe, and its standard error
        `says` (None: whatever). Returns the run."""
        reference = self.without_superpipe(scenario, *arguments)
        run = self.run_managed(scenario, *arguments, **variables)
        self.assertEqual(run.code, 0, run.output + run.errors)
        self.assertEqual(run.output, reference.output)
        if says is not None:
            self.assertEqual(LATE_CONTENT.sub("", run.errors), says)
        self.assertEqual(run.statistics["errors"], 0)
        self.assertEqual(run.simgpu["unmapped_accesses"], 0)
        return run

    def assert_moved(self, run):
        """The run did evict and fetch: a test that moves nothing shows nothing."""
        self.assertGreater(run.statistics["evictions"], 0)
        self.assertGreater(run.statistics["fetches"], 0)

    def assert_within_budget(self, run, mib, unseen=0):
        """By simgpu's own count: managed pages hold exactly, and what the driver takes unasked is seen soon.
        `unseen`: bytes that may have come between two samples."""
        self.assertLessEqual(run.simgpu["peak_bytes"], mib * MIB + unseen)
        reported = run.statistics["peak_device_bytes"] + run.statistics["context_bytes"]
        self.assertAlmostEqual(reported, run.simgpu["peak_bytes"], delta=0.01 * reported + unseen)
        self.assert_moved(run)
