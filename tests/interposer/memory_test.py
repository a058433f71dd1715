"""Programs that do the same again and again on simgpu: host memory does not grow with each round."""

import unittest

from managed_run import MIB, ManagedCase

ROUNDS = 100
EVERY = 20  # the first of these is late enough for all that is made once


class MemoryTest(ManagedCase):
    PROGRAM = "memory_program"

    # What a round may leave behind are histories with a bound of their own, of launches above all:
    # some hundred bytes for each of the few launches of a round.
    MOST_LEFT = MIB

    def assert_bounded(self, scenario, most_pinned):
        """`most_pinned`: MiB of pinned host memory at the end. That is what all buffers take at one
        time and little more, or some times as much where their sizes change."""
        run = self.run_managed(scenario, ROUNDS, EVERY, SUPERPIPE_GPU_MEM="14M")
        self.assertEqual((run.code, run.statistics["errors"]), (0, 0), run.output + run.errors)
        self.assert_moved(run)
        rounds = [list(map(int, line.split())) for line in run.output.splitlines()]
        self.assertEqual([line[0] for line in rounds], list(range(EVERY, ROUNDS + 1, EVERY)))
        self.assertLess(rounds[-1][1] - rounds[0][1], self.MOST_LEFT, rounds)
        self.assertLessEqual(run.statistics["pinned_host_bytes"], most_pinned * MIB, rounds)

    def test_models_that_leave_the_device_and_come_back(self):
        self.assert_bounded("moves", 32)

    def test_buffers_of_sizes_that_never_come_again(self):
        # Twice as much as the program has at one time, and then as much of each of eight sizes.
        self.assert_bounded("loads", 64 + 8 * 32)

    def test_caches_that_grow(self):
        self.assert_bounded("caches", 84)

    def test_threads_that_begin_and_end(self):
        self.assert_bounded("threads", 26)

    def test_streams_that_are_made_and_destroyed(self):
        self.assert_bounded("streams", 24)

    def test_modules_that_are_loaded_and_unloaded(self):
        self.assert_bounded("modules", 20)


if __name__ == "__main__":
    unittest.main()
