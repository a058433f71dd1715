"""Programs that allocate from pools of memory, on simgpu, with and without superpipe: same bytes, within the budget."""

import shutil
import signal
import tempfile
import unittest
from pathlib import Path

from managed_run import HEADROOM, LIBRARY, MIB, PROGRAMS, ManagedCase


class PoolTest(ManagedCase):
    PROGRAM = "pool_program"

    def test_a_pool_that_grows_by_itself_stays_within_the_budget(self):
        for mib in (18, 23):
            with self.subTest(mib):
                run = self.assert_same("small_pools", SUPERPIPE_GPU_MEM=f"{mib}M")
                self.assert_within_budget(run, mib, unseen=HEADROOM)
                self.assertGreaterEqual(run.statistics["passthrough_bytes"], 4 * MIB)
                self.assertEqual(run.statistics["headroom_bytes"], HEADROOM)

    def test_a_destroyed_pools_memory_counts_until_it_is_freed(self):
        for mib in (15, 18):
            with self.subTest(mib):
                run = self.assert_same("destroyed_pools", PROGRAMS / "large_module.fatbin", SUPERPIPE_GPU_MEM=f"{mib}M")
                self.assert_within_budget(run, mib, unseen=HEADROOM)

    def test_pools_destroyed_in_threads_while_code_is_loaded_are_not_asked_about(self):
        # simgpu says on standard error when a handle names no pool, where a driver might crash.
        self.assert_moved(self.assert_same("pools_destroyed_in_threads", PROGRAMS / "large_module.fatbin",
                                           SUPERPIPE_GPU_MEM="14M"))

    def test_calls_side_by_side_to_a_pool_are_not_refused(self):
        for mib in (10, 14):
            with self.subTest(mib):
                run = self.assert_same("pools_in_threads", SUPERPIPE_GPU_MEM=f"{mib}M")
                self.assert_within_budget(run, mib, unseen=HEADROOM)

    def test_a_thread_without_a_context_frees_in_the_order_of_a_stream(self):
        run = self.assert_same("freed_without_context", SUPERPIPE_GPU_MEM="14M")
        self.assert_moved(run)

    def test_small_memory_of_pytorch_stays_with_its_stream_where_superpipe_chose_the_allocator(self):
        other, same = "another stream takes {}\n", "the same stream takes {}\n"
        freed, new = "what was freed", "other memory"
        kept, given = other.format(new) + same.format(freed), other.format(freed) + same.format(new)
        with tempfile.TemporaryDirectory(prefix="superpipe-pytorch-") as folder:
            library = shutil.copy(PROGRAMS / "libfake_interpreter.so", Path(folder) / "libtorch_cpu.so")
            pytorch = {"LD_PRELOAD": f"{LIBRARY}:{library}"}
            for variables, expected in ((pytorch, kept), ({}, given),
                                        ({**pytorch, "SUPERPIPE_ALLOCATOR": "native"}, given)):
                with self.subTest(**variables):
                    run = self.run_managed("freed_by_another_stream", SUPERPIPE_GPU_MEM="14M", **variables)
                    self.assertEqual((run.code, run.output), (0, expected), run.errors)

    ABORTED = ("superpipe: the program was aborted. PyTorch allocated with backend:cudaMallocAsync, "
               "which superpipe chose")

    def aborted(self, how: str, name: str = "libtorch_cpu.so", **variables: object):
        """A run of a program that is aborted, with a library `name`: PyTorch's looks to the loader like this."""
        with tempfile.TemporaryDirectory(prefix="superpipe-pytorch-") as folder:
            library = shutil.copy(PROGRAMS / "libfake_interpreter.so", Path(folder) / name)
            return self.run_managed("is_aborted", how, LD_PRELOAD=f"{LIBRARY}:{library}", **variables)

    def assert_said(self, run, code: int, output: str) -> None:
        self.assertEqual((run.code, run.output), (code, output), run.errors)
        self.assertEqual(run.errors.count(self.ABORTED), 1, run.errors)
        self.assertIn("--allocator native", run.errors)

    def test_an_aborted_program_of_pytorch_is_told_of_the_allocator_once(self):
        self.assert_said(self.aborted("by default"), -signal.SIGABRT, "allocated\n")
        self.assert_said(self.aborted("handled"), 3, "allocated\nhandled\n")

    def test_a_log_file_takes_the_line_of_an_aborted_program(self):
        with tempfile.NamedTemporaryFile("r") as log:
            run = self.aborted("by default", SUPERPIPE_LOG=f"info:{log.name}")
            self.assertEqual((run.code, run.errors), (-signal.SIGABRT, ""))
            self.assertEqual(log.read().count(self.ABORTED), 1)

    def test_other_aborted_programs_are_told_nothing_of_the_allocator(self):
        for how, name, variables, code in (
                ("by default", "libother.so", {}, -signal.SIGABRT),
                ("by default", "libtorch_cpu.so", {"SUPERPIPE_ALLOCATOR": "native"}, -signal.SIGABRT),
                ("by default", "libtorch_cpu.so", {"SUPERPIPE_LOG": "off"}, -signal.SIGABRT),
                ("ignored", "libtorch_cpu.so", {}, 0), ("forked", "libtorch_cpu.so", {}, 0)):
            with self.subTest(how=how, name=name, **variables):
                run = self.aborted(how, name, **variables)
                self.assertEqual((run.code, run.errors), (code, ""))
                if how == "ignored":
                    self.assertEqual(run.output, "allocated\ngoes on\n")
                if how == "forked":
                    self.assertEqual(run.output, "allocated\nchild ended by signal 6\n")


if __name__ == "__main__":
    unittest.main()
