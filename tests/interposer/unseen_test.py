"""Programs whose kernels use memory that no launch shows, or name memory that they do not use."""

import re
import unittest

from managed_run import ManagedCase

# In its strict form the driver's new memory is not zero, so that what was lost does not look right.
STRICT = {"SIMGPU_FILL": "poison", "SUPERPIPE_GPU_MEM": "14M"}


class UnseenTest(ManagedCase):
    PROGRAM = "unseen_program"

    def test_what_a_kernel_writes_unseen_to_a_fresh_buffer_is_kept_when_it_leaves(self):
        for writeback in ("digest", "always"):
            with self.subTest(writeback):
                run = self.assert_same("write_fresh", SUPERPIPE_WRITEBACK=writeback, **STRICT)
                self.assert_moved(run)
                self.assertEqual(run.statistics["pinned_buffers"], 0)

    def test_a_fault_is_reported_with_what_to_set_and_with_that_the_program_runs(self):
        reference = self.without_superpipe("use_absent")
        variables = {}
        for attempt in range(4):
            run = self.run_managed("use_absent", **{**STRICT, "SUPERPIPE_GPU_MEM": "18M"}, **variables)
            if run.code == 0:
                break
            self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", run.output)
            reports = re.findall(r"^superpipe: work of the program failed with (.*)$", run.errors, re.MULTILINE)
            self.assertEqual(len(reports), 1, run.errors)
            address = re.search(r"accessed (0x[0-9a-f]+)", run.errors).group(1)
            self.assertIn(f"the driver's log names address {address}, in buffer ", reports[0])
            self.assertRegex(reports[0], r"in buffer \d+ of 2097152 bytes \(2 MiB\), which was not on the device there")
            self.assertIn("the kernels launched last, the latest first: accumulate_listed, accumulate\n", run.errors)
            pin = re.search(r"set SUPERPIPE_PIN=(\S+) \(--pin ", run.errors)
            self.assertIsNotNone(pin, run.errors)
            self.assertEqual(pin.group(1).split(",")[:-1], variables.get("SUPERPIPE_PIN", "").split(",")[:attempt])
            variables["SUPERPIPE_PIN"] = pin.group(1)
        self.assertEqual(run.code, 0, run.errors)
        self.assertGreater(attempt, 0, "nothing had left the device")
        self.assertEqual(run.output, reference.output)
        self.assertEqual(run.simgpu["unmapped_accesses"], 0)
        self.assert_moved(run)

    def test_a_buffer_that_only_a_stale_word_names_gives_way_before_the_launch_fails(self):
        run = self.assert_same("stale_words", SUPERPIPE_KERNEL_WORDS="all", SUPERPIPE_SUMMARY=1, says=None, **STRICT)
        self.assertEqual(run.statistics["left_out_launches"], 3)
        self.assertEqual(run.errors.count("it runs without buffers 3, which only words in its structs name"), 1, run.errors)
        self.assertIn("superpipe: 3 launches did without buffers", run.errors)

    def test_a_stale_word_brings_its_buffer_where_there_is_room(self):
        run = self.assert_same("stale_words", SUPERPIPE_KERNEL_WORDS="all", SIMGPU_FILL="poison", SUPERPIPE_GPU_MEM="20M")
        self.assertEqual(run.statistics["left_out_launches"], 0)

    def test_a_kernel_that_uses_what_gave_way_fails_and_the_report_names_it(self):
        run = self.run_managed("used_words", SUPERPIPE_KERNEL_WORDS="all", **STRICT)
        self.assertEqual(run.code, 1)
        self.assertEqual(run.output, "cuCtxSynchronize(): CUDA_ERROR_ILLEGAL_ADDRESS\n")
        self.assertIn("it runs without buffers 2, which only words in its structs name", run.errors)
        self.assertIn("buffer 2 of 8388608 bytes (8 MiB), without which kernel void at::native::elementwise_kernel",
                      run.errors)

    def test_words_in_structs_that_are_not_pytorchs_never_give_way(self):
        run = self.run_managed("words_of_another", **STRICT)
        self.assertEqual(run.code, 1)
        self.assertRegex(run.output, r"^cuLaunchKernel\(.*CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES\n$")
        self.assertIn("a launch of kernel accumulate_struct ", run.errors)
        self.assertNotIn("it runs without buffers", run.errors)
        self.assertEqual(run.simgpu["unmapped_accesses"], 0)
        self.assert_same("words_of_another", SIMGPU_FILL="poison", SUPERPIPE_GPU_MEM="20M")


if __name__ == "__main__":
    unittest.main()
