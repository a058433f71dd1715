"""Programs that hand their kernels tensor maps, as matrix products do on Hopper: their buffers move like others."""

import unittest

from managed_run import ManagedCase


class TensorMapTest(ManagedCase):
    PROGRAM = "tensor_map_program"
    # Five of nine buffers of 2 MiB and the kernels: with all operands pinned, no launch could have its own.
    BUDGETS = ({"SUPERPIPE_K": 3}, {"SUPERPIPE_GPU_MEM": "14M"}, {"SUPERPIPE_GPU_MEM": "14M", "SUPERPIPE_POLICY": "lru"})

    def assert_pins_nothing(self, scenario):
        for variables in self.BUDGETS:
            with self.subTest(variables):
                # Standard error says nothing: neither that buffers stay, nor that a launch was refused.
                run = self.assert_same(scenario, **variables)
                self.assert_moved(run)
                self.assertEqual(run.statistics["pinned_buffers"], 0)

    def test_a_map_for_each_product_pins_nothing(self):
        self.assert_pins_nothing("encoded_each_time")

    def test_a_launch_uses_the_buffer_that_its_map_was_turned_to(self):
        self.assert_pins_nothing("replaced")

    def test_maps_in_structs_and_argument_buffers_are_found(self):
        self.assert_pins_nothing("kept")

    def test_maps_are_good_for_memory_that_comes_again_at_their_address(self):
        self.assert_pins_nothing("freed_and_back")

    def test_maps_in_device_memory_keep_their_buffers_there(self):
        for variables in self.BUDGETS:
            with self.subTest(variables):
                self.assert_moved(self.assert_same(
                    "in_device_memory", says="superpipe: buffers stay on the device from now on: device memory holds a "
                    "pointer to them\n", **variables))

    def test_maps_that_the_device_reads_from_the_host_keep_their_buffers_there(self):
        for variables in self.BUDGETS:
            with self.subTest(variables):
                self.assert_moved(self.assert_same(
                    "in_pinned_memory", says="superpipe: buffers stay on the device from now on: cuTensorMapEncodeTiled\n",
                    **variables))


if __name__ == "__main__":
    unittest.main()
