"""A byte budget holds by the driver's own count, in every run; and what does not fit the device runs all the same."""

import unittest

from simulated_run import MIB, EndToEndCase, layers, run

N, LAYER = 8, 2


class Budget(EndToEndCase):
    def check(self, command: list, budgets: list[int]) -> None:
        reference = run(command, without_superpipe=True)
        self.assert_succeeded(reference)
        moved = []
        # The other policies keep to a budget by the same means as superpipeline, and the tightest
        # one tests these.
        for budget in budgets:
            policies = ("superpipeline", "superpipeline-paper", "naive")
            for policy in policies if budget == budgets[0] else policies[:1]:
                with self.subTest(mib=budget, policy=policy):
                    outcome = run(command, "--gpu-mem", f"{budget}M", "--policy", policy)
                    self.assert_same_output(outcome, reference)
                    self.assertLessEqual(outcome.peak, budget * MIB)
                    self.assertEqual(outcome.stats["budget_bytes"] + outcome.stats["context_bytes"], budget * MIB)
                    moved.append(outcome.stats["h2d_bytes"])
        self.assertGreater(max(moved), 0, "no budget was tight: nothing was tested")

    # The context takes 2 MiB of each.

    def test_forward(self) -> None:
        self.check(layers(N, LAYER), [8, 10, 13, 16, 24])

    def test_two_streams(self) -> None:
        self.check(layers(N, LAYER, "--streams", "2"), [10, 12, 16])

    def test_stream_ordered_allocation(self) -> None:
        self.check(layers(N, LAYER, "--alloc", "async"), [10, 16])

    def test_training(self) -> None:
        self.check(layers(N, LAYER, "--mode", "train"), [16, 24, 40])

    def test_device_and_host_hold_together_what_neither_does(self) -> None:
        command = layers(N, LAYER)
        reference = run(command, without_superpipe=True)
        for policy in ("auto", "superpipeline"):
            with self.subTest(policy=policy):
                outcome = run(command, "--gpu-mem", "14M", "--host-mem", "12M", "--headroom", "1M", "--policy", policy)
                self.assert_same_output(outcome, reference)
                self.assertGreater(reference.peak, 14 * MIB, "the device would have held all")
                self.assertGreater(outcome.stats["h2d_bytes"], 0)
                self.assertEqual(len(self.lines(outcome.stderr, "the host store is full at 12582912 bytes")), 1)

    def test_more_than_device_and_host_hold_fails_with_a_line(self) -> None:
        outcome = run(layers(N, LAYER), "--gpu-mem", "10M", "--host-mem", "6M", "--headroom", "1M")
        self.assertNotEqual(outcome.returncode, 0)
        self.assertEqual(len(self.lines(outcome.stderr, "out of host memory: ")), 1, outcome.stderr)
        self.assertIn("SUPERPIPE_HOST_MEM", outcome.stderr)

    def test_percentage_of_the_device(self) -> None:
        device = {"SIMGPU_MEMORY": "40M"}
        outcome = run(layers(N, LAYER), "--gpu-mem", "25%", environment=device)
        self.assert_succeeded(outcome)
        self.assertLessEqual(outcome.peak, 10 * MIB)
        self.assertGreater(outcome.stats["h2d_bytes"], 0)

    def test_model_larger_than_the_device(self) -> None:
        device = {"SIMGPU_MEMORY": "12M"}
        command = layers(N, LAYER)
        self.assertNotEqual(run(command, without_superpipe=True, environment=device).returncode, 0)
        outcome = run(command, "--k", "3", "--k-prime", "1", environment=device)
        self.assert_same_output(outcome, run(command, without_superpipe=True))
        self.assertLessEqual(outcome.peak, 12 * MIB)

    def test_model_larger_than_the_device_runs_without_a_flag(self) -> None:
        outcome = run(layers(N, LAYER), environment={"SIMGPU_MEMORY": "12M"})
        self.assert_same_output(outcome, run(layers(N, LAYER), without_superpipe=True))
        self.assertEqual(outcome.stats["policy"], "auto")
        self.assertLessEqual(outcome.peak, 12 * MIB)
        self.assertGreater(outcome.stats["h2d_bytes"], 0)

    def test_less_free_than_the_headroom_is_said_and_runs_without_superpipe(self) -> None:
        outcome = run(layers(N, LAYER), "--headroom", "1G", environment={"SIMGPU_MEMORY": "512M"})
        self.assert_same_output(outcome, run(layers(N, LAYER), without_superpipe=True))
        self.assertTrue(self.lines(outcome.stderr, "the headroom alone is"), outcome.stderr)

    def test_program_that_fits_needs_no_host_memory_without_a_flag(self) -> None:
        outcome = run(layers(N, LAYER), "--host-mem", "1M")
        self.assert_same_output(outcome, run(layers(N, LAYER), without_superpipe=True))
        self.assertEqual(outcome.stats["policy"], "auto")

    def test_nothing_moves_without_a_flag_where_all_fits(self) -> None:
        outcome = run(layers(N, LAYER))
        self.assert_succeeded(outcome)
        self.assertEqual((outcome.stats["h2d_bytes"], outcome.stats["d2h_bytes"]), (0, 0))

    def test_k_that_does_not_fit_the_device_is_no_excuse_for_wrong_bytes(self) -> None:
        command = layers(N, LAYER)
        outcome = run(command, "--k", "7", "--k-prime", "1", environment={"SIMGPU_MEMORY": "12M"})
        if outcome.returncode == 0:
            self.assert_same_output(outcome, run(command, without_superpipe=True))
        else:
            self.assertRegex(outcome.stderr, r"superpipe: .*(memory|device)")

    def test_host_store_is_capped(self) -> None:
        outcome = run(layers(N, LAYER), "--k", "2", "--host-mem", "4M")
        self.assertNotEqual(outcome.returncode, 0)
        self.assertTrue(self.lines(outcome.stderr, "host"), outcome.stderr)


if __name__ == "__main__":
    unittest.main()
