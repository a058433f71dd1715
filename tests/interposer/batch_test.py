"""Copies in batches whose buffers do not fit on the device together: the same bytes, and no refusal."""

import unittest

from managed_run import MIB, ManagedCase


class BatchTest(ManagedCase):
    PROGRAM = "batch_program"

    def assert_same_in_parts(self, scenario):
        # Its buffers take 34 MiB and less; the batches name 16 of 2 MiB, or 9.
        for variables in ({"SUPERPIPE_GPU_MEM": "14M"}, {"SUPERPIPE_GPU_MEM": "10M", "SUPERPIPE_POLICY": "lru"},
                          {"SUPERPIPE_GPU_MEM": "14M", "SUPERPIPE_WRITEBACK": "always"}):
            with self.subTest(variables):
                run = self.assert_same(scenario, **variables)
                self.assert_moved(run)
                self.assertLessEqual(run.simgpu["peak_bytes"], int(variables["SUPERPIPE_GPU_MEM"][:-1]) * MIB)

    def test_copies_between_buffers_go_in_parts_that_fit(self):
        self.assert_same_in_parts("between_buffers")

    def test_copies_with_the_host_read_their_source_when_the_program_says(self):
        self.assert_same_in_parts("with_the_host")

    def test_copies_of_boxes_go_in_parts_that_fit(self):
        self.assert_same_in_parts("boxes")

    def test_the_copy_at_which_a_batch_fails_is_the_one_of_the_whole_batch(self):
        # The copies before it are done by then, as the manual allows; the last one shows that nothing behind it is.
        self.assert_same("failures", SUPERPIPE_GPU_MEM="14M")

    def test_pointers_in_what_a_batch_copies_are_found(self):
        run = self.assert_same("pointers", SUPERPIPE_GPU_MEM="20M",
                               says="superpipe: buffers stay on the device from now on: device memory holds a pointer "
                               "to them\n")
        self.assert_moved(run)

    def test_a_copy_between_buffers_that_do_not_fit_together_goes_by_parts(self):
        for scenario in ("large_copies", "large_copies_after_host_function"):
            for variables in ({}, {"SUPERPIPE_POLICY": "lru"}, {"SUPERPIPE_WRITEBACK": "always"},
                              {"SIMGPU_HOST_FUNCTIONS": "parallel"}):
                with self.subTest(scenario, **variables):
                    run = self.assert_same(scenario, SUPERPIPE_GPU_MEM="16M", **variables)
                    self.assert_moved(run)
                    self.assertLessEqual(run.simgpu["peak_bytes"], 16 * MIB)

    def test_a_copy_between_buffers_that_fit_together_is_one_call(self):
        run = self.assert_same("large_copies", SUPERPIPE_GPU_MEM="48M")
        alone = self.without_superpipe("large_copies")
        for function in ("cuMemcpyDtoDAsync", "cuMemcpyAsync", "cuMemcpyDtoD", "cuMemcpy"):
            self.assertEqual(run.simgpu["api_calls"][function], alone.simgpu["api_calls"][function], function)

    def test_one_box_that_fits_no_budget_is_refused_in_one_line(self):
        run = self.run_managed("too_large", SUPERPIPE_GPU_MEM="20M")
        output = self.without_superpipe("too_large").output.replace("result 0", "result 701")
        self.assertEqual((run.code, run.output), (0, output), run.errors)
        self.assertRegex(run.errors, rf"\Asuperpipe: one operation needs {32 * MIB} bytes [^\n]*of managed buffers at once, "
                         r"but the budget leaves [^\n]*\n\Z")

    def test_a_batch_that_fits_is_one_call(self):
        run = self.assert_same("between_buffers", SUPERPIPE_GPU_MEM="48M")
        self.assertEqual(run.simgpu["api_calls"]["cuMemcpyBatchAsync"], 3)


if __name__ == "__main__":
    unittest.main()
