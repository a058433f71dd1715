"""What superpipe adds: driver calls by simgpu's own count, where everything fits and for each piece
that moves where not."""

import unittest

from managed_run import MIB, ManagedCase

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
LAUNCHES_OF_A_PASS = 8  # programs/neutral_program.cc


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
        many = self.added_calls(12, 0, "no", **DEFAULT_OF_RUN)
        # How many samples there are is for the machine's speed to decide, and not for how many
        # passes there were.
        added = self.difference(few, many)
        self.assertLessEqual(added.keys(), CALLS_OF_A_SAMPLE | CALLS_OF_A_LOOK_AT_NVML)
        self.assertLess(added.get("cuMemGetInfo", 0), (12 - 2) * LAUNCHES_OF_A_PASS,
                        "a launch asks")
        self.assertLess(added.get("cuDeviceGetPCIBusId", 0), 12 - 2, "a pass asks")

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

    def test_by_default_an_idle_process_asks_ever_more_seldom_for_device_memory(self):
        busy = self.added_calls(2, 0, "no", **DEFAULT_OF_RUN)
        idle = self.added_calls(2, 4000, "no", **DEFAULT_OF_RUN)
        added = self.difference(busy, idle)
        self.assertLessEqual(added.keys(), CALLS_OF_A_SAMPLE | CALLS_OF_A_LOOK_AT_NVML)
        # The interval doubles from 5 ms to a second, which is eight questions, and then there is one
        # each second: 12 in four seconds, which last longer on a busy machine. With an interval that
        # stays as it is, there would be 80 with 50 ms, and 800 with 5 ms.
        self.assertLessEqual(added.get("cuMemGetInfo", 0), 40)
        self.assertLessEqual(added.get("cuDeviceGetPCIBusId", 0), 30)


class PieceTest(ManagedCase):
    """Calls for each piece that moves, where a part of the layers fits."""

    PROGRAM = "neutral_program"
    ROOM = {"auto": {"SUPERPIPE_POLICY": "auto", "SUPERPIPE_GPU_MEM": 14 * MIB},
            "lru": {"SUPERPIPE_POLICY": "lru", "SUPERPIPE_GPU_MEM": 14 * MIB},
            "superpipeline": {"SUPERPIPE_K": 3}}
    FEW, MANY = 10, 30  # passes; of the rest superpipe knows the order, and its pages, events and host memory are there
    # At most so many for each piece that comes, that goes, that is written back, and that a digest
    # is taken of: a kernel, which asks where its sum is to lie. How many of those that go are
    # written back differs from run to run: a digest that is late finds none unchanged.
    BY_FETCH = {"cuMemMap": 1, "cuMemSetAccess": 1, "cuMemcpyHtoDAsync": 1}
    BY_EVICTION = {"cuMemUnmap": 1}
    BY_WRITE_BACK = {"cuMemcpyDtoHAsync": 1}
    BY_DIGEST = {"cuLaunchKernel": 1, "cuMemHostGetDevicePointer": 1}
    # For each that comes or goes: ends of transfers, digests and uses, also of launches that use enough to mark theirs; and who waits for these.
    BY_MOVE = {"cuEventRecord": 5, "cuStreamWaitEvent": 2}
    # Events are used again: one is made only where more are under way at once than ever before, 17
    # to 80 of them, by chance and by how slow the machine is, however many pieces move. One for each
    # fetch would be as many as fetches, and these.
    FETCHES = 105
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
        return calls, run.statistics

    def assert_few_calls(self, launches_each):
        for room in self.ROOM:
            with self.subTest(room):
                few, moves_of_few = self.calls_and_moves(room, self.FEW, launches_each)
                many, moves_of_many = self.calls_and_moves(room, self.MANY, launches_each)
                self.assertGreater(moves_of_many["fetches"], self.FETCHES)
                self.assertLess(many["cuEventCreate"], moves_of_many["fetches"])
                added = {name: many[name] - few.get(name, 0) for name in many}
                moves = {figure: moves_of_many[figure] - moves_of_few[figure] for figure in
                         ("fetches", "evictions", "write_backs", "precleaned", "digests")}
                precleaned = moves["precleaned"]
                most = {}
                for number, calls_for_each in (
                        (moves["fetches"] + precleaned, self.BY_FETCH),
                        (moves["evictions"] + precleaned, self.BY_EVICTION),
                        (moves["write_backs"] + precleaned, self.BY_WRITE_BACK),
                        (moves["digests"], self.BY_DIGEST),
                        (moves["fetches"] + moves["evictions"] + 2 * precleaned, self.BY_MOVE)):
                    most |= {name: number * calls for name, calls in calls_for_each.items()}
                # A piece that is wanted before its digest has come is mapped again, and has not
                # left. How many are differs from run to run, by how slow the machine is.
                returned = max(0, added["cuMemUnmap"] - most["cuMemUnmap"])
                self.assertLessEqual(returned, moves["evictions"] // 8 + self.STRAY)
                for name in ("cuMemUnmap", "cuMemMap", "cuMemSetAccess"):
                    most[name] += returned
                for name, number in added.items():
                    if name not in {*self.BY_TIME, *self.FRAME, "cuEventCreate"}:
                        self.assertLessEqual(number, most.get(name, 0) + self.STRAY, name)
                # Within one run: a wait on the host asks any number of times within one frame, so
                # that the questions of two runs differ by more than their frames.
                framed = sum(number for name, number in many.items() if name not in self.FRAME)
                for name, number in self.FRAME.items():
                    self.assertLessEqual(many[name], number * framed + self.STRAY, name)

    def test_a_piece_that_moves_takes_few_calls(self):
        self.assert_few_calls(1)

    def test_launches_that_find_all_in_place_add_none_to_these(self):
        """A call for each of them would be five more for each piece."""
        self.assert_few_calls(8)

    def test_once_all_is_over_samples_alone_are_taken(self):
        for room in ("auto", "superpipeline"):
            with self.subTest(room):
                busy, idle = (self.run_managed("streaming", 2, 1, idle_ms, **self.ROOM[room], **AS_ON_A_GPU).simgpu["api_calls"]
                              for idle_ms in (0, 1500))
                # Looks every 200 us would be 7,500 more; how many two passes take differs from run
                # to run by some hundred.
                self.assertLess(idle["cuEventQuery"] - busy["cuEventQuery"], 3000)
                self.assertLessEqual(idle["cuMemGetInfo"] - busy["cuMemGetInfo"], 60)


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


if __name__ == "__main__":
    unittest.main()
