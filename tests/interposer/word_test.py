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

    def test_leftovers_in_structs_give_way_before_a_launch_is_refused(self):
        for policy in ("auto", "lru"):
            with self.subTest(policy):
                run = self.assert_same("leftovers", says=None, SUPERPIPE_GPU_MEM="16M", SUPERPIPE_POLICY=policy)
                self.assert_moved(run)
                self.assertEqual(run.statistics["launches_without_leftovers"], 3)
                self.assertRegex(run.errors, r"\Asuperpipe: launches of kernel accumulate_padded run without 2097152 bytes"
                                             r".*leftovers of the stack.*\n\Z")

    def test_operands_in_structs_do_not_give_way(self):
        # Nothing says that they are leftovers: the launch is refused, and no kernel runs without its operands.
        run = self.run_managed("operands", SUPERPIPE_GPU_MEM="16M")
        self.assertIn("launch 701", run.output)
        self.assertIn("accumulate_struct needs", run.errors)
        self.assertEqual(run.statistics["launches_without_leftovers"], 0)


if __name__ == "__main__":
    unittest.main()
