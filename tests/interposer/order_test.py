"""Programs whose bytes depend on the order of their streams' work, on simgpu, with and without superpipe."""

import unittest

from managed_run import MIB, ManagedCase

# Longer than a gate of order_program stays closed: a call that wrongly waits for one is seen by the
# gate, and is not ended by superpipe before.
PATIENCE_MS = 600_000


class OrderTest(ManagedCase):
    """The default stream is the legacy stream."""

    PROGRAM = "order_program"

    def test_copies_of_evicted_buffers_run_in_the_order_of_their_streams(self):
        # The context and the headroom take 2 MiB each, and a buffer that the program uses before each copy the rest.
        run = self.assert_same("copies", SUPERPIPE_GPU_MEM="12M", SUPERPIPE_WAIT_MS=PATIENCE_MS)
        self.assertGreater(run.statistics["evictions"], 0)
        self.assertNotIn("waited for the gate", run.output)

    def test_nothing_waits_for_a_copy_that_waits_for_the_program(self):
        run = self.assert_same("behind_a_gate", SUPERPIPE_GPU_MEM="12M", SUPERPIPE_WAIT_MS=PATIENCE_MS)
        self.assert_moved(run)
        self.assertNotIn("waited for the gate", run.output)

    def test_copies_end_while_a_host_function_waits_for_the_program(self):
        # The context, the headroom and what is not moved take 2 MiB each.
        run = self.assert_same("beside_a_host_function", SUPERPIPE_GPU_MEM="14M", SUPERPIPE_WAIT_MS=PATIENCE_MS)
        self.assert_moved(run)
        self.assertNotIn("waited for the gate", run.output)

    def test_no_event_on_the_legacy_stream_comes_between_streams_that_join_it(self):
        # Three buffers fit: what the legacy stream has just used has to leave for the other one.
        run = self.assert_same("blocking_streams", SUPERPIPE_GPU_MEM="10M", SUPERPIPE_WAIT_MS=PATIENCE_MS)
        self.assert_moved(run)

    def test_an_endless_stream_keeps_only_what_it_uses(self):
        for streams in (2, 64, 200):
            with self.subTest(streams=streams):
                run = self.assert_same("many_streams", streams, SUPERPIPE_GPU_MEM="14M", SUPERPIPE_WAIT_MS=PATIENCE_MS)
                self.assert_moved(run)

    def test_copies_between_buffers_hold_both_or_neither(self):
        # Room for two buffers; a thread that held one and waited for another would meet one that does the same.
        run = self.assert_same("device_copies", SUPERPIPE_GPU_MEM="8M")
        self.assert_moved(run)
        self.assertLessEqual(run.simgpu["peak_bytes"], 6 * MIB)

    def test_pointers_that_arrive_after_the_call_are_found(self):
        run = self.assert_same("late_pointers", says="superpipe: buffers stay on the device from now on: device "
                               "memory holds a pointer to them\n", SUPERPIPE_GPU_MEM="20M")
        self.assert_moved(run)

    def test_work_that_uses_buffers_ends_before_a_reset_takes_them(self):
        self.assert_same("reset_under_load", SUPERPIPE_GPU_MEM="64M")

    def test_work_that_uses_buffers_ends_before_its_context_goes(self):
        self.assert_same("destroy_under_load", SUPERPIPE_GPU_MEM="64M")

    def test_buffers_outlive_a_destroy_that_the_driver_refuses(self):
        run = self.assert_same("destroy_primary", SUPERPIPE_GPU_MEM="14M")
        self.assertIn("destroy refused", run.output)
        self.assert_moved(run)

    def test_the_last_release_of_the_primary_context_starts_afresh(self):
        run = self.assert_same("release", SUPERPIPE_GPU_MEM="14M")
        self.assertIn("active 0", run.output)
        self.assert_moved(run)
        # Both lives of the context count, and each keeps to the budget.
        self.assertEqual(run.statistics["launches"], 8 * (2 + 3))
        self.assertLessEqual(run.simgpu["peak_bytes"], 14 * MIB)


class PerThreadOrderTest(OrderTest):
    """The default stream is one of each thread."""

    PROGRAM = "order_program_ptds"


class ParallelHostFunctionsOrderTest(OrderTest):
    """The driver runs host functions of several streams at once."""

    def run_managed(self, scenario, *arguments, **variables):
        return super().run_managed(scenario, *arguments, SIMGPU_HOST_FUNCTIONS="parallel", **variables)


if __name__ == "__main__":
    unittest.main()
