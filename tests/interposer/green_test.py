"""Programs with green contexts on simgpu: what runs there is managed as in the primary context."""

import unittest

from managed_run import MIB, ManagedCase


class GreenTest(ManagedCase):
    PROGRAM = "green_program"
    # A buffer is 2 MiB, as the context and the headroom are. Eight layers and a state do not fit.
    BUDGETS = ({"SUPERPIPE_GPU_MEM": "14M"}, {"SUPERPIPE_GPU_MEM": "14M", "SUPERPIPE_POLICY": "lru"},
               {"SUPERPIPE_GPU_MEM": "14M", "SUPERPIPE_POLICY": "superpipeline"})

    def assert_managed(self, scenario, **checks):
        for variables in self.BUDGETS:
            with self.subTest(variables):
                run = self.assert_same(scenario, **checks, **variables)
                self.assert_moved(run)
                self.assertLessEqual(run.simgpu["peak_bytes"], 14 * MIB)
                yield run

    def test_streams_of_green_contexts_are_ordered_as_those_of_the_primary_one(self):
        for run in self.assert_managed("streams"):
            self.assertEqual(run.statistics["pinned_buffers"], 0)

    def test_what_is_allocated_and_made_where_a_green_context_is_current_is_managed(self):
        for run in self.assert_managed("current"):
            self.assertEqual(run.statistics["pinned_buffers"], 0)
            self.assertEqual(run.statistics["passthrough_bytes"], 0)

    def test_what_its_default_stream_uses_stays_on_the_device(self):
        for scenario in ("default_stream", "by_a_stream"):
            for run in self.assert_managed(
                    scenario,
                    says="superpipe: buffers stay on the device from now on: used where events cannot order it\n"):
                self.assertEqual(run.statistics["pinned_buffers"], 4)

    def test_what_streams_of_a_destroyed_green_context_used_can_leave(self):
        for run in self.assert_managed("destroyed_first"):
            self.assertEqual(run.statistics["pinned_buffers"], 0)
            self.assertEqual(run.statistics["errors"], 0)


if __name__ == "__main__":
    unittest.main()
