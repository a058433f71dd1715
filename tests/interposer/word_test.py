"""Programs with words that look like addresses and are none."""

import unittest

from managed_run import ManagedCase


class WordTest(ManagedCase):
    PROGRAM = "word_program"

    def test_numbers_in_copies_are_no_pointers_where_the_driver_reserves_low(self):
        for arena in ("low", "high"):
            for variables in ({"SUPERPIPE_K": 3}, {"SUPERPIPE_GPU_MEM": "14M"}):
                with self.subTest(arena, **variables):
                    # Standard error says nothing: not that buffers stay on the device.
                    run = self.assert_same("numbers", SIMGPU_ARENA=arena, **variables)
                    self.assert_moved(run)
                    self.assertEqual(run.statistics["pinned_buffers"], 0)


if __name__ == "__main__":
    unittest.main()
