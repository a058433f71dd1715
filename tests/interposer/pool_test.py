"""Programs that allocate from pools of memory, on simgpu, with and without superpipe: same bytes, within the budget."""

import unittest

from managed_run import HEADROOM, MIB, PROGRAMS, ManagedCase


class PoolTest(ManagedCase):
    PROGRAM = "pool_program"

    def test_a_pool_that_grows_by_itself_stays_within_the_budget(self):
        for mib in (18, 23):
            with self.subTest(mib):
                run = self.assert_same("small_pools", SUPERPIPE_GPU_MEM=f"{mib}M")
                self.assert_within_budget(run, mib, unseen=HEADROOM)
                self.assertGreaterEqual(run.statistics["passthrough_bytes"], 4 * MIB)
                self.assertEqual(run.statistics["headroom_bytes"], HEADROOM)

    def test_a_destroyed_pools_memory_counts_until_it_is_freed(self):
        for mib in (15, 18):
            with self.subTest(mib):
                run = self.assert_same("destroyed_pools", PROGRAMS / "large_module.fatbin", SUPERPIPE_GPU_MEM=f"{mib}M")
                self.assert_within_budget(run, mib, unseen=HEADROOM)

    def test_pools_destroyed_in_threads_while_code_is_loaded_are_not_asked_about(self):
        # simgpu says on standard error when a handle names no pool, where a driver might crash.
        self.assert_moved(self.assert_same("pools_destroyed_in_threads", PROGRAMS / "large_module.fatbin",
                                           SUPERPIPE_GPU_MEM="14M"))

    def test_calls_side_by_side_to_a_pool_are_not_refused(self):
        for mib in (10, 14):
            with self.subTest(mib):
                run = self.assert_same("pools_in_threads", SUPERPIPE_GPU_MEM=f"{mib}M")
                self.assert_within_budget(run, mib, unseen=HEADROOM)


if __name__ == "__main__":
    unittest.main()
