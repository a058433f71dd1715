"""What superpipe adds where everything fits: driver calls by simgpu's own count, and time at the start of a process."""

import os
import subprocess
import time
import unittest

from managed_run import LIBRARY, MIB, SIMGPU, ManagedCase

# Fresh memory reads as it is, as with `superpipe run` on a GPU: superpipe fills nothing.
AS_ON_A_GPU = {"SUPERPIPE_FILL": "none"}
# What `superpipe run` sets without flags, but for digests: the kernel for these is loaded and tried with the first
# allocation, and how often superpipe has to ask until it is done differs from run to run.
DEFAULT_OF_RUN = {"SUPERPIPE_POLICY": "auto", "SUPERPIPE_WRITEBACK": "always", **AS_ON_A_GPU}
# What a preloaded library does without any setting.
NOTHING_MOVES = {"SUPERPIPE_POLICY": "resident", **AS_ON_A_GPU}
# The worker's sample of device memory, and how it makes the context current.
CALLS_OF_A_SAMPLE = {"cuMemGetInfo", "cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent",
                     "cuThreadExchangeStreamCaptureMode"}
# How the device is named to NVML, which is asked, once a second at most, where a sample had to guess whose memory grew: on a busy
# machine one may come while the program's first calls allocate.
CALLS_OF_A_LOOK_AT_NVML = {"cuDeviceGetPCIBusId", "cuDeviceGetByPCIBusId"}


class DriverCallsTest(ManagedCase):
    PROGRAM = "neutral_program"

    def added_calls(self, *arguments, **variables):
        """Calls that the driver gets more than without superpipe, by name; negative: that it gets less."""
        plain = self.without_superpipe("steady", *arguments).simgpu["api_calls"]
        run = self.run_managed("steady", *arguments, **variables)
        self.assertEqual((run.code, run.errors), (0, ""))
        for figure in ("fetches", "evictions"):
            self.assertEqual(run.statistics[figure], 0, figure)
        calls = run.simgpu["api_calls"]
        return {name: calls.get(name, 0) - plain.get(name, 0) for name in calls.keys() | plain.keys()}

    def difference(self, before, after):
        return {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}

    def test_where_nothing_can_move_passes_add_no_call(self):
        few = self.added_calls(2, 0, "yes", **NOTHING_MOVES)
        many = self.added_calls(12, 0, "yes", **NOTHING_MOVES)
        self.assertEqual(self.difference(few, many), {})

    def test_where_nothing_can_move_an_idle_process_makes_no_call(self):
        busy = self.added_calls(2, 0, "yes", **NOTHING_MOVES)
        idle = self.added_calls(2, 1500, "yes", **NOTHING_MOVES)
        self.assertEqual(self.difference(busy, idle), {})

    def test_where_nothing_can_move_only_allocation_and_the_first_launch_of_a_kernel_add_calls(self):
        """All else is the same: launches, copies, fills, streams, events, waits, questions about memory."""
        added = self.added_calls(4, 0, "yes", **NOTHING_MOVES)
        of_allocation = {
            "cuMemAlloc", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemAddressReserve",
            "cuMemGetAllocationGranularity", "cuCtxGetCurrent", "cuThreadExchangeStreamCaptureMode", "cuEventQuery"}
        of_the_first_allocation = {
            "cuCtxGetDevice": 1, "cuDeviceGetAttribute": 1, "cuDriverGetVersion": 1, "cuEventCreate": 1,
            "cuCtxGetStreamPriorityRange": 3, "cuStreamCreateWithPriority": 3, "cuMemGetInfo": 2}
        of_a_kernel = {"cuFuncGetName": 1, "cuFuncGetParamInfo": 5, "cuFuncGetModule": 1}
        others = {name: calls for name, calls in added.items() if calls != 0 and name not in of_allocation}
        self.assertEqual(others, {**of_the_first_allocation, **of_a_kernel})

    def test_by_default_passes_add_no_call_but_the_workers_samples(self):
        few = self.added_calls(2, 0, "no", **DEFAULT_OF_RUN)
        begun = time.monotonic()
        many = self.added_calls(12, 0, "no", **DEFAULT_OF_RUN)
        added = self.difference(few, many)
        # The program asks once a pass how much memory is free, and so does superpipe, for an answer that adds up.
        asked = added.get("cuMemGetInfo", 0)
        self.assertLessEqual(asked, 10 + 8 + (time.monotonic() - begun) / 0.1)
        self.assertLessEqual(added.keys(), CALLS_OF_A_SAMPLE)

    def test_by_default_an_idle_process_asks_for_device_memory_once_a_second_at_most(self):
        busy = self.added_calls(2, 0, "no", **DEFAULT_OF_RUN)
        idle = self.added_calls(2, 4000, "no", **DEFAULT_OF_RUN)
        added = self.difference(busy, idle)
        self.assertLessEqual(added.keys(), CALLS_OF_A_SAMPLE | CALLS_OF_A_LOOK_AT_NVML)
        looks = added.get("cuDeviceGetPCIBusId", 0)
        self.assertLessEqual(looks, 5)
        # Eight while the interval doubles from 5 ms, three in the seconds that are left, one more by chance; one behind each look.
        self.assertLessEqual(added.get("cuMemGetInfo", 0), 12 + looks)


class FreeMemoryTest(ManagedCase):
    PROGRAM = "neutral_program"

    def test_where_nothing_can_move_free_memory_is_what_the_driver_says(self):
        """The context and what other processes hold are not free, whatever superpipe holds."""
        others = {"SIMGPU_OTHER_BYTES": 50 * MIB, "SIMGPU_CONTEXT_BYTES": 20 * MIB}
        arguments = ("steady", 1, 0, "no")
        plain = self.run_managed(*arguments, SUPERPIPE_OFF=1, **others)
        run = self.run_managed(*arguments, **NOTHING_MOVES, **others)
        self.assertEqual((run.code, run.errors), (0, ""))
        self.assertEqual(run.output, plain.output)
        self.assertIn(f" of {256 * MIB}\n", run.output)


class StartTest(unittest.TestCase):
    """A program that never uses CUDA, which the library is preloaded into all the same."""

    LIMIT_MS = 5

    def run_once(self, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SUPERPIPE_")}
        environment.update(SUPERPIPE_DRIVER=str(SIMGPU / "libcuda.so.1"), **variables)
        begun = time.perf_counter()
        subprocess.run(["/bin/true"], env=environment, check=True)
        return (time.perf_counter() - begun) * 1000

    def test_a_program_without_cuda_starts_as_fast(self):
        if os.environ.get("SUPERPIPE_SANITIZER"):
            self.skipTest("a sanitizer's runtime takes longer to start than the library")
        plain, preloaded = [], []
        for _ in range(60):
            plain.append(self.run_once())
            preloaded.append(self.run_once(LD_PRELOAD=str(LIBRARY), SUPERPIPE_POLICY="auto", SUPERPIPE_SUMMARY="1"))
        # The best of each: what else runs on the machine only makes them slower.
        self.assertLess(min(preloaded) - min(plain), self.LIMIT_MS)


if __name__ == "__main__":
    unittest.main()
