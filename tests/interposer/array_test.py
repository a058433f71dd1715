"""Programs whose kernels get arrays of pointers that kernels or the host have filled: what lies behind them moves like others."""

import unittest

from managed_run import ManagedCase

# In its strict form the driver's new memory is not zero, so that what was lost does not look right.
STRICT = {"SIMGPU_FILL": "poison"}
BUDGETS = ({"SUPERPIPE_GPU_MEM": "14M"}, {"SUPERPIPE_GPU_MEM": "14M", "SUPERPIPE_POLICY": "lru"},
           {"SUPERPIPE_GPU_MEM": "14M", "SUPERPIPE_WRITEBACK": "always"}, {"SUPERPIPE_K": 4})


class ArrayTest(ManagedCase):
    PROGRAM = "array_program"

    def assert_pins_nothing(self, scenario):
        for variables in BUDGETS:
            with self.subTest(variables):
                run = self.assert_same(scenario, **STRICT, **variables)
                self.assert_moved(run)
                self.assertEqual(run.statistics["pinned_buffers"], 0)
                self.assertEqual(run.simgpu["unmapped_accesses"], 0)

    def test_arrays_that_a_kernel_fills(self):
        self.assert_pins_nothing("filled")

    def test_a_kernel_that_has_its_arrays_in_a_struct(self):
        self.assert_pins_nothing("filled_grouped")

    def test_arrays_that_a_kernel_counts(self):
        self.assert_pins_nothing("counted")
        self.assert_pins_nothing("counted_grouped")

    def test_arrays_that_are_made_of_arrays(self):
        self.assert_pins_nothing("displaced_grouped")

    def test_arrays_in_host_memory(self):
        self.assert_pins_nothing("host")
        self.assert_pins_nothing("displaced_host")

    # Were the arrays before it not forgotten, each launch would name all inputs, and none would fit.
    def test_arrays_in_memory_that_was_freed_and_came_again(self):
        self.assert_pins_nothing("freed")


if __name__ == "__main__":
    unittest.main()
