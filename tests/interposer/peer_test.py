"""Programs that use two devices, or share memory with other processes, on simgpu, with and without superpipe."""

import unittest

from managed_run import MIB, ManagedCase, Run


class TwoDevicesCase(ManagedCase):
    """Runs with two devices. Buffers lie on device 0."""

    PROGRAM = "peer_program"

    def without_superpipe(self, scenario, *arguments):
        key = (self.PROGRAM, scenario, *arguments)
        if key not in self._without_superpipe:
            self._without_superpipe[key] = Run(*key, managed=False, SIMGPU_DEVICES=2)
        run = self._without_superpipe[key]
        self.assertEqual(run.code, 0, run.output + run.errors)
        return run

    def run_managed(self, scenario, *arguments, **variables):
        return super().run_managed(scenario, *arguments, SIMGPU_DEVICES=2, **variables)


class PeerTest(TwoDevicesCase):
    """What the program lets device 1 do with buffers, it can do."""

    # A buffer is 2 MiB, as the context and the headroom are. Eight layers and a state do not fit.
    BUDGET = {"SUPERPIPE_GPU_MEM": "16M"}

    def assert_same_everywhere(self, scenario, says=None):
        """Without a budget, where nothing moves, and where buffers come and go."""
        self.assert_same(scenario, SUPERPIPE_POLICY="resident")
        run = self.assert_same(scenario, says=says, **self.BUDGET)
        self.assert_moved(run)
        self.assertLessEqual(run.simgpu["peak_bytes_per_device"][0], 16 * MIB)
        return run

    def test_a_peer_that_was_enabled_before_the_first_allocation_uses_buffers(self):
        self.assert_same_everywhere("enabled_early")

    def test_a_peer_that_was_enabled_later_uses_buffers(self):
        run = self.assert_same_everywhere("enabled_late")
        # What another context used cannot be ordered by events; only that stays.
        self.assertEqual(run.statistics["pinned_buffers"], 2)

    def test_a_device_that_a_pool_was_opened_to_uses_its_buffers(self):
        self.assert_same_everywhere("pool")

    def test_buffers_that_another_device_frees_in_its_order_come_again(self):
        for variables in ({"SUPERPIPE_POLICY": "resident"}, {"SUPERPIPE_GPU_MEM": "24M"}):
            with self.subTest(variables):
                run = self.assert_same("freed_by_peer", says=None, **variables)
                self.assertLessEqual(run.simgpu["peak_bytes_per_device"][0], 20 * MIB)

    def test_a_free_that_cannot_be_ordered_fails_as_work_does_and_not_for_want_of_memory(self):
        run = self.run_managed("freed_by_peer", SUPERPIPE_POLICY="resident", SIMGPU_FAULTS="cuEventCreate:oom@12+")
        self.assertEqual((run.code, run.output),
                         (1, "cuMemFreeAsync(layer, second.stream): CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES\n"))

    def test_copies_between_devices_that_do_not_name_contexts_copy_buffers(self):
        self.assert_same_everywhere("copies")

    # Copies take so long that what comes behind them would overtake them.
    SLOW = {"SIMGPU_D2D_GBPS": "0.5", "SIMGPU_FILL": "poison"}

    def test_copies_between_devices_are_in_the_order_of_their_stream_and_of_evictions(self):
        for scenario in ("copies_in_order", "default_copies", "copies_aside"):
            with self.subTest(scenario):
                self.assert_moved(self.assert_same(scenario, SUPERPIPE_GPU_MEM="12M", **self.SLOW))
                self.assert_same(scenario, SUPERPIPE_POLICY="resident", **self.SLOW)

    def test_a_copy_between_devices_waits_for_no_work_that_its_stream_does_not_wait_for(self):
        self.assert_same("held_copies", SUPERPIPE_GPU_MEM="12M")

    def test_copies_between_devices_that_name_contexts_copy_buffers(self):
        self.assert_same_everywhere("peer_copies")

    REFUSED = ("superpipe: the driver gives no other device access to mapped memory: a kernel of another device that uses a "
               "buffer will fault (SUPERPIPE_OFF=1 runs without superpipe)\n")

    def test_a_driver_that_shares_no_mapped_memory_runs_what_needs_none(self):
        for variables in ({"SUPERPIPE_POLICY": "resident"}, self.BUDGET):
            with self.subTest(variables):
                self.assert_same("open_copies", says=self.REFUSED, SIMGPU_MAPPED_PEERS="off", SIMGPU_FILL="poison", **variables)

    def test_a_kernel_of_a_device_that_gets_no_access_to_mapped_memory_faults(self):
        run = self.run_managed("enabled_early", SIMGPU_MAPPED_PEERS="off", **self.BUDGET)
        self.assertEqual(run.code, 1)
        self.assertRegex(run.output, r"^again 704\n[^\n]*: CUDA_ERROR_ILLEGAL_ADDRESS\n$")
        self.assertIn(self.REFUSED, run.errors)

    def test_access_that_the_driver_does_not_give_is_refused(self):
        run = self.run_managed("enabled_late", SUPERPIPE_POLICY="resident",
                               SIMGPU_FAULTS="cuMemSetAccess:fail@20+")
        self.assertEqual((run.code, run.output), (1, "cuCtxEnablePeerAccess(first.context, 0): "
                                                  "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED\n"))


class SharedMemoryTest(TwoDevicesCase):
    """Memory for other processes, which mapped memory cannot be."""

    def test_a_buffer_cannot_be_shared_and_the_log_says_what_to_set(self):
        for variables in ({}, {"SUPERPIPE_GPU_MEM": "16M"}):
            with self.subTest(variables):
                run = self.run_managed("share", **variables)
                self.assertEqual((run.code, run.output), (0, "handle 1\ninside 1\nfreed 1\npool 1\n"))
                self.assertEqual(
                    run.errors, "superpipe: cuIpcGetMemHandle fails: superpipe maps buffers itself, and those cannot be shared "
                    "with other processes. SUPERPIPE_MIN_BUFFER=2097153 leaves this one, of 2 MiB, and all that are not larger "
                    "to the driver, which then can\n")
                self.assertEqual(run.statistics["pinned_buffers"], 0)

    def test_what_the_log_says_helps(self):
        run = self.assert_same("share", SUPERPIPE_MIN_BUFFER="2097153")
        self.assertIn("handle 0\n", run.output)


if __name__ == "__main__":
    unittest.main()
