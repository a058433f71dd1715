"""What superpipe adds: driver calls by simgpu's own count, where everything fits and for each piece that moves where not, and time at the
start of a process."""

import os
import subprocess
import time
import unittest

from managed_run import BUILD, LIBRARY, MIB, SIMGPU, ManagedCase

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

    def test_by_default_a_small_copy_of_pinned_memory_adds_no_call(self):
        """What it brings is looked at when something has to leave, which is never here."""
        added = self.difference(self.added_calls(2, 0, "yes", **DEFAULT_OF_RUN), self.added_calls(12, 0, "yes", **DEFAULT_OF_RUN))
        self.assertLessEqual(added.keys(), CALLS_OF_A_SAMPLE | CALLS_OF_A_LOOK_AT_NVML)

    def test_by_default_a_program_with_small_copies_gets_the_calls_of_one_without(self):
        """Not even the first of them adds a call."""
        without = self.added_calls(4, 0, "no", **DEFAULT_OF_RUN)
        added = self.difference(without, self.added_calls(4, 0, "yes", **DEFAULT_OF_RUN))
        self.assertLessEqual(added.keys(), CALLS_OF_A_SAMPLE | CALLS_OF_A_LOOK_AT_NVML)

    def test_with_a_budget_a_small_copy_of_pinned_memory_adds_a_host_function_that_looks_for_pointers(self):
        """What the bytes are when the stream gets there: a buffer whose address goes to the device may have to stay there later on."""
        budget = {**DEFAULT_OF_RUN, "SUPERPIPE_GPU_MEM": 200 * MIB}
        added = self.difference(self.added_calls(2, 0, "yes", **budget), self.added_calls(12, 0, "yes", **budget))
        for name in ("cuLaunchHostFunc", "cuPointerGetAttribute", "cuStreamGetFlags"):
            self.assertEqual(added[name], 10, name)

    def test_by_default_an_idle_process_asks_for_device_memory_once_a_second_at_most(self):
        busy = self.added_calls(2, 0, "no", **DEFAULT_OF_RUN)
        idle = self.added_calls(2, 4000, "no", **DEFAULT_OF_RUN)
        added = self.difference(busy, idle)
        self.assertLessEqual(added.keys(), CALLS_OF_A_SAMPLE | CALLS_OF_A_LOOK_AT_NVML)
        looks = added.get("cuDeviceGetPCIBusId", 0)
        self.assertLessEqual(looks, 5)
        # Eight while the interval doubles from 5 ms, three in the seconds that are left, one more by chance; one behind each look.
        self.assertLessEqual(added.get("cuMemGetInfo", 0), 12 + looks)


class PieceTest(ManagedCase):
    """Calls for each piece that moves, where a part of the layers fits."""

    PROGRAM = "neutral_program"
    ROOM = {"auto": {"SUPERPIPE_POLICY": "auto", "SUPERPIPE_GPU_MEM": 14 * MIB},
            "lru": {"SUPERPIPE_POLICY": "lru", "SUPERPIPE_GPU_MEM": 14 * MIB},
            "superpipeline": {"SUPERPIPE_K": 3, "SUPERPIPE_K_PRIME": 1}}
    FEW, MANY = 10, 30  # passes; of the rest superpipe knows the order, and its pages, events and host memory are there
    # At most so many for each piece that comes, and for each that goes. A digest is a kernel, and asks where its sum is to lie.
    BY_FETCH = {"cuMemMap": 1, "cuMemSetAccess": 1, "cuMemcpyHtoDAsync": 1}
    BY_EVICTION = {"cuMemUnmap": 1, "cuLaunchKernel": 1, "cuMemHostGetDevicePointer": 1, "cuMemcpyDtoHAsync": 1}
    # For each that comes or goes: ends of transfers, digests and uses, also of launches that use enough to mark theirs; and who waits for these.
    # Events are used again: one is made only where more are under way at once than ever before, 17 to 26 of them, by chance and by
    # how slow the machine is, however many pieces move.
    BY_MOVE = {"cuEventRecord": 5, "cuStreamWaitEvent": 2, "cuEventCreate": 0.1}
    # Looks at what is under way, 20 to 200 us apart, follow from how long that takes; and so do samples.
    BY_TIME = {"cuEventQuery", "cuEventElapsedTime", "cuMemGetInfo"}
    # Around a call, which needs the context to be current and a capture of the program's to be left alone.
    FRAME = {"cuCtxGetCurrent": 1, "cuCtxPushCurrent": 1, "cuCtxPopCurrent": 1, "cuThreadExchangeStreamCaptureMode": 2}
    # Host memory may be wanted late.
    STRAY = 8

    def calls_and_moves(self, room, passes, launches_each):
        arguments = ("streaming", passes, launches_each, 0)
        plain = self.without_superpipe(*arguments)
        run = self.assert_same(*arguments, **self.ROOM[room], **AS_ON_A_GPU)
        names = run.simgpu["api_calls"].keys() | plain.simgpu["api_calls"].keys()
        calls = {name: run.simgpu["api_calls"].get(name, 0) - plain.simgpu["api_calls"].get(name, 0) for name in names}
        return calls, run.statistics["fetches"], run.statistics["evictions"]

    def assert_few_calls(self, launches_each):
        for room in self.ROOM:
            with self.subTest(room):
                few, fetches_of_few, evictions_of_few = self.calls_and_moves(room, self.FEW, launches_each)
                many, fetches, evictions = self.calls_and_moves(room, self.MANY, launches_each)
                fetches, evictions = fetches - fetches_of_few, evictions - evictions_of_few
                self.assertGreater(fetches, self.MANY - self.FEW)
                added = {name: many[name] - few.get(name, 0) for name in many}
                most = {name: number * fetches for name, number in self.BY_FETCH.items()}
                most |= {name: number * evictions for name, number in self.BY_EVICTION.items()}
                most |= {name: number * (fetches + evictions) for name, number in self.BY_MOVE.items()}
                for name, number in added.items():
                    if name not in self.BY_TIME and name not in self.FRAME:
                        self.assertLessEqual(number, most.get(name, 0) + self.STRAY, name)
                framed = sum(number for name, number in added.items() if name not in self.FRAME)
                for name, number in self.FRAME.items():
                    self.assertLessEqual(added[name], number * framed + self.STRAY, name)

    def test_a_piece_that_moves_takes_few_calls(self):
        self.assert_few_calls(1)

    def test_launches_that_find_all_in_place_add_none_to_these(self):
        """A call for each of them would be five more for each piece."""
        self.assert_few_calls(8)

    def test_once_all_is_over_samples_alone_are_taken(self):
        for room in ("auto", "superpipeline"):
            with self.subTest(room):
                busy, idle = (self.run_managed("streaming", 2, 1, idle_ms, **self.ROOM[room], **AS_ON_A_GPU).simgpu["api_calls"]
                              for idle_ms in (0, 3000))
                # Looks every 200 us would be 15,000 more; how many two passes take differs from run to run by some hundred.
                self.assertLess(idle["cuEventQuery"] - busy["cuEventQuery"], 2000)
                self.assertLessEqual(idle["cuMemGetInfo"] - busy["cuMemGetInfo"], 20)


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

    def run_once(self, *command, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SUPERPIPE_")}
        environment.update(SUPERPIPE_DRIVER=str(SIMGPU / "libcuda.so.1"), **variables)
        begun = time.perf_counter()
        subprocess.run([*command, "/bin/true"], env=environment, check=True, stderr=subprocess.DEVNULL)
        return (time.perf_counter() - begun) * 1000

    def assert_starts_as_fast(self, *command, **variables):
        if os.environ.get("SUPERPIPE_SANITIZER"):
            self.skipTest("a sanitizer's runtime takes longer to start than the library")
        plain, ours = [], []
        # The best of each: what else runs on the machine only makes them slower. Where it always does, more of them are needed.
        while len(ours) < 60 or (len(ours) < 600 and min(ours) - min(plain) >= self.LIMIT_MS):
            plain.append(self.run_once())
            ours.append(self.run_once(*command, **variables))
        self.assertLess(min(ours) - min(plain), self.LIMIT_MS)

    def test_a_program_without_cuda_starts_as_fast(self):
        self.assert_starts_as_fast(LD_PRELOAD=str(LIBRARY), SUPERPIPE_POLICY="auto", SUPERPIPE_SUMMARY="1")

    def test_the_command_takes_no_longer_to_start_it(self):
        """It looks at the program and at the driver, and then becomes the program."""
        self.assert_starts_as_fast(str(BUILD / "bin" / "superpipe"), "run", "--")


if __name__ == "__main__":
    unittest.main()
