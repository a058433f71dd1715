"""Small copies while everything fits the device, which memory is later too short for."""

import unittest

from managed_run import MIB, ManagedCase

# As `superpipe run` without a flag: buffers have what the device has free, less the headroom.
SHORT = {"SUPERPIPE_POLICY": "auto", "SIMGPU_MEMORY": "22M"}
HELD = "superpipe: buffers stay on the device from now on: device memory holds a pointer to them\n"


class LateTest(ManagedCase):
    PROGRAM = "late_program"

    def assert_found(self, *words: str, **environment: object) -> None:
        """The program stores pointers to four buffers in the source of a copy after the call: they stay on the device, and others move."""
        run = self.assert_same(*words, says=HELD, **environment)
        self.assert_moved(run)
        self.assertEqual(run.statistics["pinned_buffers"], 4)

    def test_pointers_stored_behind_a_host_function_are_found_in_the_order_of_the_stream(self):
        self.assert_found("late", "host", **SHORT)

    def test_pointers_stored_behind_a_host_function_may_be_moved_on_the_device(self):
        self.assert_found("moved", **SHORT)

    def test_with_a_budget_they_are_found_behind_a_kernel_that_spins_too(self):
        self.assert_found("late", "kernel", SUPERPIPE_GPU_MEM="20M")

    def test_a_kernel_that_does_not_end_holds_nobody_up(self):
        run = self.assert_same("persistent", says="", **{**SHORT, "SUPERPIPE_HEADROOM": 12 * MIB, "SIMGPU_MEMORY": "32M"})
        self.assert_moved(run)
        self.assertNotIn("launches waited", run.output)


if __name__ == "__main__":
    unittest.main()
