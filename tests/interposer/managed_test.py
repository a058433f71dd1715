"""Unmodified driver-API programs on simgpu, with and without superpipe: same bytes, less memory."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["SUPERPIPE_BUILD_DIR"])
LIBRARY = BUILD / "lib" / "libsuperpipe.so"
SIMGPU = BUILD / "lib" / "superpipe" / "simgpu"
PROGRAMS = BUILD / "tests" / "interposer"
KERNELS = PROGRAMS / "kernels.fatbin"
MIB = 1 << 20
BUFFER = 2 * MIB


class Run:
    """One run of managed_program, with what it and simgpu and superpipe say about it."""

    def __init__(self, scenario, *arguments, managed=True, **variables):
        with tempfile.TemporaryDirectory() as folder:
            environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(("SUPERPIPE_", "SIMGPU_", "LD_PRELOAD"))}
            environment.update(
                LD_LIBRARY_PATH=str(SIMGPU), SIMGPU_STATS=f"{folder}/simgpu.json",
                SIMGPU_KERNELS=str(PROGRAMS / "kernels_plugin.so"), SIMGPU_MEMORY="256M")
            if managed:
                environment.update(
                    LD_PRELOAD=str(LIBRARY), SUPERPIPE_DRIVER=str(SIMGPU / "libcuda.so.1"),
                    SUPERPIPE_FILL="zero", SUPERPIPE_STATS=f"{folder}/superpipe.json")
            # The preload comes before the program's own sanitizer runtime, which is the same one.
            environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0"
            environment.update({name: str(value) for name, value in variables.items()})
            result = subprocess.run(
                [str(PROGRAMS / "managed_program"), scenario, str(KERNELS), *map(str, arguments)],
                env=environment, capture_output=True, text=True, check=False, timeout=100)
            self.code, self.output, self.errors = (result.returncode, result.stdout, result.stderr)
            self.simgpu = self._read(f"{folder}/simgpu.json")
            self.statistics = self._read(f"{folder}/superpipe.json")
            self.files = sorted(os.listdir(folder))

    @staticmethod
    def _read(path):
        return json.loads(Path(path).read_text()) if Path(path).exists() else None


class ManagedTest(unittest.TestCase):
    def unmanaged(self, scenario):
        run = Run(scenario, managed=False)
        self.assertEqual(run.code, 0, run.output + run.errors)
        return run

    def assert_same(self, scenario, says="", **variables):
        """Runs `scenario` managed; its output must be the unmanaged run's, and its standard error
        `says`. Returns the run."""
        reference = self.unmanaged(scenario)
        run = Run(scenario, **variables)
        self.assertEqual(run.code, 0, run.output + run.errors)
        self.assertEqual(run.output, reference.output)
        self.assertEqual(run.errors, says)
        self.assertEqual(run.statistics["errors"], 0)
        self.assertEqual(run.simgpu["unmapped_accesses"], 0)
        return run

    def assert_moved(self, run):
        """The run did evict and fetch: a test that moves nothing shows nothing."""
        self.assertGreater(run.statistics["evictions"], 0)
        self.assertGreater(run.statistics["fetches"], 0)

    POLICIES = ({"SUPERPIPE_K": 1}, {"SUPERPIPE_K": 2}, {"SUPERPIPE_K": 4, "SUPERPIPE_K_PRIME": 1},
                {"SUPERPIPE_K": 4, "SUPERPIPE_K_PRIME": 3},
                {"SUPERPIPE_K": 3, "SUPERPIPE_POLICY": "superpipeline-paper"},
                {"SUPERPIPE_GPU_MEM": "14M"})

    def test_forward_passes_compute_the_same_under_every_policy(self):
        for variables in self.POLICIES:
            with self.subTest(variables):
                self.assert_moved(self.assert_same("forward", **variables))

    def test_training_passes_compute_the_same_under_every_policy(self):
        for variables in self.POLICIES:
            with self.subTest(variables):
                run = self.assert_same("training", **variables)
                self.assert_moved(run)
                self.assertGreater(run.statistics["write_backs"], 0)

    def test_streams_and_stream_ordered_memory_compute_the_same(self):
        for variables in ({"SUPERPIPE_K": 3}, {"SUPERPIPE_GPU_MEM": "14M"}):
            with self.subTest(variables):
                self.assert_moved(self.assert_same("asynchronous", **variables))

    def test_pointers_in_structs_buffers_and_device_memory_are_found(self):
        for variables in ({"SUPERPIPE_K": 4}, {"SUPERPIPE_GPU_MEM": "20M"}):
            with self.subTest(variables):
                self.assert_moved(self.assert_same(
                    "hidden_pointers", says="superpipe: buffers stay on the device for good: device "
                    "memory holds a pointer to them\n", **variables))

    def test_copies_and_memsets_of_every_kind_see_the_newest_bytes(self):
        for variables in ({"SUPERPIPE_K": 2}, {"SUPERPIPE_GPU_MEM": "14M"}):
            with self.subTest(variables):
                self.assert_moved(self.assert_same("copies", **variables))

    def test_pointers_pools_and_totals_look_like_an_ordinary_device(self):
        self.assert_same("attributes", SUPERPIPE_GPU_MEM="14M")

    def test_a_reset_drops_everything_and_the_program_goes_on(self):
        run = self.assert_same("reset", SUPERPIPE_K=2)
        self.assertGreater(run.statistics["launches"], 6 * 8 + 1)

    def test_a_forked_child_passes_through_and_reports_nothing(self):
        run = self.assert_same("fork", SUPERPIPE_K=2)
        self.assertEqual(run.files, ["simgpu.json", "superpipe.json"])

    def test_peak_memory_is_what_the_budget_allows_by_simgpus_own_count(self):
        run = self.assert_same("forward", SUPERPIPE_GPU_MEM="14M")
        self.assertLessEqual(run.simgpu["peak_bytes"], 14 * MIB)
        reported = run.statistics["peak_device_bytes"] + run.statistics["context_bytes"]
        self.assertAlmostEqual(reported, run.simgpu["peak_bytes"], delta=0.01 * reported)

    def test_nothing_moves_when_everything_fits(self):
        run = self.assert_same("forward")
        for field in ("fetches", "evictions", "h2d_bytes", "d2h_bytes"):
            self.assertEqual(run.statistics[field], 0, field)
        self.assertEqual(run.statistics["policy"], "resident")

    def test_statistics_agree_with_simgpu_about_transfers(self):
        managed = self.assert_same("forward", SUPERPIPE_K=2)
        unmanaged = self.unmanaged("forward")
        # The program's own copies may go to the host store instead; ours all cross the link.
        self.assertGreaterEqual(managed.simgpu["h2d_bytes"], managed.statistics["h2d_bytes"])
        self.assertLessEqual(managed.simgpu["h2d_bytes"],
                             managed.statistics["h2d_bytes"] + unmanaged.simgpu["h2d_bytes"])
        self.assertEqual(managed.statistics["launches"], unmanaged.simgpu["launches"])

    def test_a_working_set_above_the_budget_fails_its_launch_and_says_so(self):
        run = Run("too_large", SUPERPIPE_GPU_MEM="20M")
        self.assertEqual(run.output, "launch 701\n", run.errors)
        self.assertEqual(run.errors.count("\n"), 1, run.errors)
        self.assertIn("MiB", run.errors)

    def test_a_working_set_above_the_budget_runs_when_overflow_is_allowed(self):
        run = Run("too_large", SUPERPIPE_GPU_MEM="20M", SUPERPIPE_OVERFLOW="allow")
        self.assertEqual(run.output, "launch 0\n", run.errors)
        self.assertEqual(run.errors.count("\n"), 1, run.errors)

    def test_a_budget_below_the_context_is_one_line_and_runs_unmanaged(self):
        run = Run("forward", SUPERPIPE_GPU_MEM="1M")
        self.assertEqual(run.output, self.unmanaged("forward").output)
        self.assertEqual(run.errors.count("\n"), 1, run.errors)
        self.assertIn("SUPERPIPE_GPU_MEM is 1 MiB", run.errors)
        self.assertIsNone(run.statistics)

    def test_a_budget_below_the_context_fails_allocations_when_strict(self):
        run = Run("forward", SUPERPIPE_GPU_MEM="1M", SUPERPIPE_STRICT=1)
        self.assertEqual(run.code, 1)
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", run.output)

    def test_a_second_copy_of_the_driver_is_said_in_one_line(self):
        copy = PROGRAMS / "drivers" / "full" / "libcuda.so.1"
        run = Run("second_copy", copy, SUPERPIPE_K=2)
        self.assertEqual(run.output, "opened yes\n", run.errors)
        self.assertEqual(run.errors.count("\n"), 1, run.errors)
        self.assertIn(str(copy), run.errors)

    def test_the_summary_is_printed_when_asked_for(self):
        run = Run("forward", SUPERPIPE_K=2, SUPERPIPE_SUMMARY=1)
        self.assertIn("policy superpipeline, k 2, k' 1", run.errors)
        self.assertIn("peak device memory", run.errors)

    def test_off_leaves_the_driver_alone(self):
        run = Run("forward", SUPERPIPE_OFF=1, SUPERPIPE_K=2)
        self.assertEqual(run.output, self.unmanaged("forward").output)
        self.assertIsNone(run.statistics)


if __name__ == "__main__":
    unittest.main()
