"""Unmodified driver-API programs on simgpu, with and without superpipe: same bytes, less memory."""

import shutil
import tempfile
import unittest
from pathlib import Path

from managed_run import HEADROOM, LIMIT, MIB, PROGRAMS, ManagedCase


class ManagedTest(ManagedCase):
    POLICIES = ({"SUPERPIPE_K": 1}, {"SUPERPIPE_K": 2}, {"SUPERPIPE_K": 4, "SUPERPIPE_K_PRIME": 1},
                {"SUPERPIPE_K": 4, "SUPERPIPE_K_PRIME": 3},
                {"SUPERPIPE_K": 3, "SUPERPIPE_POLICY": "superpipeline-paper"},
                {"SUPERPIPE_GPU_MEM": "14M"}, {"SUPERPIPE_GPU_MEM": "14M", "SUPERPIPE_POLICY": "superpipeline"},
                {"SUPERPIPE_GPU_MEM": "14M", "SUPERPIPE_POLICY": "lru"})

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
                    "hidden_pointers", says="superpipe: buffers stay on the device from now on: device "
                    "memory holds a pointer to them\n", **variables))

    def test_copies_and_memsets_of_every_kind_see_the_newest_bytes(self):
        for variables in ({"SUPERPIPE_K": 2}, {"SUPERPIPE_GPU_MEM": "14M"}):
            with self.subTest(variables):
                self.assert_moved(self.assert_same("copies", **variables))

    def test_pointers_pools_and_totals_look_like_an_ordinary_device(self):
        self.assert_same("attributes", SUPERPIPE_GPU_MEM="14M")

    MODES = ("auto", "virtual", "budget", "real")

    def test_a_share_of_the_total_limits_a_program_in_each_mode(self):
        for mode in self.MODES:
            with self.subTest(mode):
                self.assert_same("fraction", SUPERPIPE_GPU_MEM="14M", SUPERPIPE_REPORT_MEM=mode)
        self.assert_same("fraction", SUPERPIPE_POLICY="auto")
        self.assert_same("fraction", SUPERPIPE_POLICY="resident")

    def plan(self, *arguments, mode):
        """What a program that takes nine tenths of the memory plans within 200 MiB of the device and
        64 MiB of the host's, and what superpipe says."""
        run = self.run_managed("utilization", *arguments, SUPERPIPE_GPU_MEM="200M", SUPERPIPE_HOST_MEM="64M",
                               SUPERPIPE_REPORT_MEM=mode)
        starts, plan = run.output.splitlines()
        self.assertEqual(starts, "starts yes")
        return int(plan.split()[1]), run.errors

    def test_a_program_that_fills_a_share_of_the_total_starts_and_plans_with_it(self):
        device, host, budget = 256, 64, 200 - HEADROOM // MIB
        self.assertEqual(self.plan(mode="budget"), (int(0.9 * budget), ""))
        virtual = int(0.9 * (host + budget * 3 / 4))
        self.assertEqual(self.plan(mode="virtual"), (virtual, ""))
        self.assertEqual(self.plan(mode="auto"), (virtual, ""))
        self.assertEqual(self.plan(mode="real"), (int(0.9 * device), ""))

    def test_vllm_is_told_of_the_budget_and_that_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "vllm" / "_C.abi3.so"
            library.parent.mkdir()
            shutil.copy(PROGRAMS / "libfake_interpreter.so", library)
            plan, said = self.plan(library, mode="auto")
            self.assertEqual(plan, self.plan(mode="budget")[0])
            self.assertRegex(said, r"\Asuperpipe: vLLM fills the memory .*--report-mem virtual.*\n\Z")
            self.assertEqual(self.plan(library, mode="virtual"), self.plan(mode="virtual"))

    def test_a_reset_drops_everything_and_the_program_goes_on(self):
        run = self.assert_same("reset", SUPERPIPE_K=2)
        self.assertGreater(run.statistics["launches"], 6 * 8 + 1)

    def test_a_forked_child_passes_through_and_reports_nothing(self):
        run = self.assert_same("fork", SUPERPIPE_K=2)
        self.assertEqual(run.files, ["simgpu.json", "superpipe.json"])

    def test_a_forked_child_that_is_the_first_to_use_the_driver_is_managed(self):
        run = self.assert_same("in_child:forward", SUPERPIPE_K=2)
        self.assert_moved(run)
        self.assertEqual(run.files, ["simgpu.json", "superpipe.json"])
        run = self.run_managed("in_child:too_large", SUPERPIPE_GPU_MEM="20M", SUPERPIPE_STRICT="1")
        self.assertEqual((run.code, run.output), (125, "allocated\n"), run.errors)

    def test_peak_memory_is_what_the_budget_allows_by_simgpus_own_count(self):
        self.assert_within_budget(self.assert_same("forward", SUPERPIPE_GPU_MEM="14M"), 14)

    def test_loading_code_does_not_wait_for_what_the_program_holds_up(self):
        # A wait would end with the test's patience.
        run = self.assert_same("lookup_while_busy", SUPERPIPE_GPU_MEM="16M",
                               SUPERPIPE_WAIT_MS=2 * LIMIT * 1000)
        self.assert_within_budget(run, 16, unseen=HEADROOM)

    def test_modules_that_come_late_stay_within_the_budget(self):
        for mib in (14, 17):
            with self.subTest(mib):
                run = self.assert_same("late_code", PROGRAMS / "large_module.fatbin", SUPERPIPE_GPU_MEM=f"{mib}M")
                self.assert_within_budget(run, mib, unseen=HEADROOM)
                self.assertEqual(run.statistics["headroom_bytes"], HEADROOM)

    def test_virtual_memory_of_the_programs_own_is_said_once_when_it_is_more_than_the_headroom(self):
        self.assert_moved(self.assert_same("own_pages", 1, SUPERPIPE_GPU_MEM="14M"))
        run = self.assert_same("own_pages", 3, says=None, SUPERPIPE_GPU_MEM="18M")
        self.assertRegex(run.errors, r"\Asuperpipe: the program asks for virtual memory of its own \(cuMemCreate\), for "
                         r"more than 2 MiB so far: [^.]* cannot be moved\n\Z")
        self.assert_same("own_pages", 3, SUPERPIPE_POLICY="resident")

    def test_the_summary_names_the_allocator_that_frameworks_use(self):
        for name, said in (({}, "async"), ({"PYTORCH_ALLOC_CONF": "backend:native"}, "native"),
                           ({"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, "async"),
                           ({"SUPERPIPE_ALLOCATOR": "native"}, "native")):
            with self.subTest(name):
                run = self.assert_same("forward", says=None, SUPERPIPE_SUMMARY=1, **name)
                self.assertIn(f", allocators {said}\n", run.errors)

    def test_nothing_moves_when_everything_fits(self):
        run = self.assert_same("forward")
        for field in ("fetches", "evictions", "h2d_bytes", "d2h_bytes"):
            self.assertEqual(run.statistics[field], 0, field)
        self.assertEqual(run.statistics["policy"], "resident")

    def test_statistics_agree_with_simgpu_about_transfers(self):
        managed = self.assert_same("forward", SUPERPIPE_K=2)
        plain = self.without_superpipe("forward")
        # The program's own copies may go to the host store instead; ours all cross the link.
        self.assertGreaterEqual(managed.simgpu["h2d_bytes"], managed.statistics["h2d_bytes"])
        self.assertLessEqual(managed.simgpu["h2d_bytes"],
                             managed.statistics["h2d_bytes"] + plain.simgpu["h2d_bytes"])
        self.assertEqual(managed.statistics["launches"], plain.simgpu["launches"])

    KERNEL = r"model::accumulate_2\(float\*, float const\*, float, int\)"

    def test_a_working_set_above_the_budget_fails_its_launch_and_says_so(self):
        run = self.run_managed("too_large", SUPERPIPE_GPU_MEM="20M")
        output = self.without_superpipe("too_large").output.replace("launch 0", "launch 701")
        self.assertEqual((run.code, run.output), (0, output), run.errors)
        # The kernel as its author wrote it, its bytes, and what context and headroom leave of the budget: once.
        self.assertRegex(run.errors, rf"\Asuperpipe: .*{self.KERNEL} needs {32 * MIB} bytes.*"
                         rf"the budget leaves {16 * MIB} bytes.*SUPERPIPE_OVERFLOW=allow.*\n\Z")
        self.assertLessEqual(run.simgpu["peak_bytes"], 20 * MIB)

    def test_refused_launches_are_counted_and_told_of(self):
        run = self.run_managed("too_large", SUPERPIPE_GPU_MEM="20M", SUPERPIPE_SUMMARY="1")
        self.assertEqual(run.statistics["refused_operations"], 2)
        self.assertRegex(run.errors, r"\nsuperpipe: 2 launches or copies were refused: .*--strict.*\n")
        self.assertEqual(self.assert_same("forward", SUPERPIPE_K=2).statistics["refused_operations"], 0)

    def test_a_refused_launch_ends_the_program_when_strict(self):
        run = self.run_managed("too_large", SUPERPIPE_GPU_MEM="20M", SUPERPIPE_STRICT="1")
        # What it had printed is there, and so are the reports.
        self.assertEqual((run.code, run.output), (125, "allocated\n"), run.errors)
        self.assertRegex(run.errors, rf"\Asuperpipe: .*needs {32 * MIB} bytes.*\nsuperpipe: --strict ends the program "
                         r"here, .*\n\Z")
        self.assertEqual(run.statistics["refused_operations"], 1)

    def test_a_working_set_above_the_budget_runs_when_overflow_is_allowed(self):
        run = self.assert_same("too_large", says=None, SUPERPIPE_GPU_MEM="20M", SUPERPIPE_OVERFLOW="allow")
        self.assertRegex(run.errors, rf"\Asuperpipe: .*needs {32 * MIB} bytes.*leaves \({16 * MIB} bytes.*"
                         r"running over the budget\n\Z")
        self.assertGreater(run.simgpu["peak_bytes"], 20 * MIB)

    def test_a_budget_below_the_context_is_one_line_and_runs_without_superpipe(self):
        run = self.run_managed("forward", SUPERPIPE_GPU_MEM="1M")
        self.assertEqual(run.output, self.without_superpipe("forward").output)
        self.assertEqual(run.errors.count("\n"), 1, run.errors)
        self.assertIn("SUPERPIPE_GPU_MEM is 1 MiB", run.errors)
        self.assertIsNone(run.statistics)

    def test_what_other_processes_hold_is_not_taken_for_the_context(self):
        others = {"SIMGPU_MEMORY": "8G", "SIMGPU_OTHER_BYTES": "5G", "SIMGPU_CONTEXT_BYTES": "100M"}
        run = self.assert_same("forward", SUPERPIPE_GPU_MEM="112M", **others)
        self.assert_moved(run)
        self.assertEqual(run.statistics["context_bytes"], 100 * MIB)

    def test_where_nobody_says_whose_memory_is_a_context_takes_1_gib_at_most(self):
        others = {"SIMGPU_MEMORY": "8G", "SIMGPU_OTHER_BYTES": "5G", "SIMGPU_PROCESSES": "hidden"}
        run = self.assert_same("forward", SUPERPIPE_GPU_MEM="1036M", **others)
        self.assert_moved(run)
        self.assertEqual(run.statistics["context_bytes"], 1024 * MIB)
        # Whoever asks is told, for it may have been the context after all.
        run = self.assert_same("forward", says=None, SUPERPIPE_GPU_MEM="1036M", SUPERPIPE_LOG="info", **others)
        self.assertRegex(run.errors, r"superpipe: the device held 5\S* GiB when the context was there; 1 GiB of it are taken "
                         r"for the context, and the rest for other processes'")
        # A context of less than that, and nothing else, is what it is.
        run = self.assert_same("forward", says=None, SUPERPIPE_GPU_MEM="112M", SUPERPIPE_LOG="info", SIMGPU_MEMORY="8G",
                               SIMGPU_CONTEXT_BYTES="100M", SIMGPU_PROCESSES="hidden")
        self.assertNotIn("when the context was there", run.errors)
        self.assert_moved(run)
        self.assertEqual(run.statistics["context_bytes"], 100 * MIB)

    def test_a_budget_below_the_context_fails_allocations_when_strict(self):
        run = self.run_managed("forward", SUPERPIPE_GPU_MEM="1M", SUPERPIPE_STRICT=1)
        self.assertEqual(run.code, 1)
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", run.output)

    def test_a_second_copy_of_the_driver_is_said_in_one_line(self):
        copy = PROGRAMS / "drivers" / "full" / "libcuda.so.1"
        run = self.run_managed("second_copy", copy, SUPERPIPE_K=2)
        self.assertEqual(run.output, "opened yes\n", run.errors)
        self.assertEqual(run.errors.count("\n"), 1, run.errors)
        self.assertIn(str(copy), run.errors)

    def test_the_summary_is_printed_when_asked_for(self):
        run = self.run_managed("forward", SUPERPIPE_K=2, SUPERPIPE_SUMMARY=1)
        self.assertIn("policy superpipeline, k 2, layers ", run.errors)
        self.assertIn("peak device memory", run.errors)

    def test_off_leaves_the_driver_alone(self):
        run = self.run_managed("forward", SUPERPIPE_OFF=1, SUPERPIPE_K=2)
        self.assertEqual(run.output, self.without_superpipe("forward").output)
        self.assertIsNone(run.statistics)


if __name__ == "__main__":
    unittest.main()
