"""Every byte of every buffer is the same with and without superpipe, for every policy, k and k'."""

from simulated_run import MIB, EndToEndCase, layers, run, schedules, some_schedules

import unittest

N = 6
MODES = {
    "forward": (),
    "two streams": ("--streams", "2"),
    "stream-ordered allocation": ("--alloc", "async"),
    "asynchronous loading": ("--async",),
    "training": ("--mode", "train"),
    "training on two streams": ("--mode", "train", "--streams", "2"),
    "training, all asynchronous": ("--mode", "train", "--streams", "3", "--alloc", "async", "--async"),
}
# For combinations.
SAMPLE = [("--policy", "naive", "--k", "1"), ("--k", "2"),
          ("--policy", "superpipeline-paper", "--k", "3", "--k-prime", "2"), ("--k", "6")]


class SameBytes(EndToEndCase):
    def check(self, mode: str, schedule_list: list[tuple[str, ...]]) -> None:
        command = layers(N, 1, *MODES[mode])
        reference = run(command, without_superpipe=True)
        self.assert_succeeded(reference)
        self.assertGreaterEqual(len(reference.files["digests"].splitlines()), N)
        moved = 0
        for flags in schedule_list:
            with self.subTest(mode=mode, flags=" ".join(flags)):
                outcome = run(command, *flags)
                self.assert_same_output(outcome, reference)
                moved += outcome.stats["fetches"]
        self.assertGreater(moved, 0, "no run moved anything: nothing was tested")

    def test_forward(self) -> None:
        self.check("forward", schedules(N))

    def test_training(self) -> None:
        self.check("training", [*some_schedules(N), ("--k", "4"), ("--k", "6")])

    def test_two_streams(self) -> None:
        self.check("two streams", SAMPLE)

    def test_stream_ordered_allocation(self) -> None:
        self.check("stream-ordered allocation", SAMPLE)

    def test_asynchronous_loading(self) -> None:
        self.check("asynchronous loading", SAMPLE)

    def test_training_on_two_streams(self) -> None:
        self.check("training on two streams", SAMPLE)

    def test_training_all_asynchronous(self) -> None:
        self.check("training, all asynchronous", SAMPLE)

    def test_run_without_superpipe_is_what_the_host_computes(self) -> None:
        for mode in ("forward", "training"):
            with self.subTest(mode=mode):
                self.assert_succeeded(run(layers(N, 1, "--verify", *MODES[mode]), without_superpipe=True))
                self.assert_succeeded(run(layers(N, 1, "--verify", *MODES[mode]), "--k", "2", "--k-prime", "1"))


class Figures(EndToEndCase):
    """What the statistics say of runs whose figures are known."""

    def test_moves_nothing_when_everything_fits(self) -> None:
        command = layers(N, 2, passes=6)
        reference = run(command, without_superpipe=True)
        for flags in ([], ["--policy", "resident"], ["--gpu-mem", "8G"], ["--k", str(N)]):
            with self.subTest(flags=flags):
                outcome = run(command, *flags)
                self.assert_same_output(outcome, reference)
                stats = outcome.stats
                self.assertEqual([stats[name] for name in ("h2d_bytes", "d2h_bytes", "fetches", "evictions",
                                                           "write_backs")], [0] * 5)
                self.assertEqual(outcome.driver["h2d_bytes"], reference.driver["h2d_bytes"])
                self.assertEqual(outcome.driver["d2h_bytes"], reference.driver["d2h_bytes"])

    def test_finds_layers_and_passes(self) -> None:
        stats = run(layers(N, 2, passes=8), "--k", "3", "--k-prime", "1").stats
        self.assertEqual(stats["layers"], N)
        self.assertEqual(stats["layer_bytes"], [2 * MIB] * N)
        self.assertEqual((stats["policy"], stats["k"], stats["k_prime"]), ("superpipeline", 3, 0))
        self.assertGreaterEqual(stats["passes"], 5)  # the first ones are needed to learn the order
        self.assertEqual(stats["fetches"], stats["prefetches"] + stats["demand_fetches"])
        self.assertEqual(stats["evictions"], stats["clean_evictions"] + stats["write_backs"])

    def test_measures_passes_against_both_bounds(self) -> None:
        # However late the machine is, passes take at least what is modelled, and bounds are made of what was measured.
        command = layers(12, 2, passes=16)
        modelled = {"SIMGPU_H2D_GBPS": "1", "SIMGPU_D2H_GBPS": "1", "SIMGPU_KERNEL_US": "100"}
        for flags in (("--gpu-mem", "18M"), ("--k", "3", "--k-prime", "1"), ("--policy", "lru", "--gpu-mem", "18M")):
            with self.subTest(flags=flags):
                outcome = run(command, *flags, environment=modelled)
                self.assert_succeeded(outcome)
                stats = outcome.stats
                self.assertGreaterEqual(stats["passes"], 10)
                # With 18 MiB at least 6 of the 24 MiB cross a link of 1 GB/s in each pass, and at most all of them have to.
                self.assertGreater(stats["bound_ms"], 5)
                self.assertGreaterEqual(stats["windowed_bound_ms"], stats["bound_ms"] * (1 - 1e-9))
                self.assertLess(stats["windowed_bound_ms"], 1.5 * stats["pass_ms"])
                self.assertGreaterEqual(stats["avoidable_stall_share"], 0)
                self.assertLessEqual(stats["avoidable_stall_share"], 1)
                passes = self.lines(outcome.stderr, " passes of ")
                self.assertEqual(len(passes), 1, outcome.stderr)
                self.assertIn("times the physical bound of", passes[0])
                self.assertIn("times the windowed bound of", passes[0])
                self.assertEqual(len(self.lines(outcome.stderr, "better prefetching could avoid up to")), 1)

    def test_knows_no_bound_where_no_pass_was_found(self) -> None:
        stats = run(layers(12, 2, passes=1), "--gpu-mem", "18M").stats
        self.assertEqual((stats["passes"], stats["pass_ms"], stats["bound_ms"]), (0, 0, 0))
        self.assertIsNone(stats["windowed_bound_ms"])
        self.assertIsNone(stats["avoidable_stall_share"])

    def test_is_bound_by_compute_when_all_fits(self) -> None:
        stats = run(layers(12, 2, passes=16), "--k", "12").stats
        self.assertGreater(stats["bound_ms"], 0)
        self.assertEqual(stats["windowed_bound_ms"], stats["bound_ms"])
        self.assertIsNone(stats["avoidable_stall_share"])

    def test_peak_is_what_the_driver_saw(self) -> None:
        for flags, mode in ((("--k", "1"), "training"), (("--k", "4"), "forward"),
                            (("--k", "4"), "stream-ordered allocation"),
                            (("--gpu-mem", "12M"), "training"),
                            (("--gpu-mem", "12M"), "stream-ordered allocation")):
            with self.subTest(flags=flags, mode=mode):
                self.assert_witnesses_agree(run(layers(N, 1, *MODES[mode]), *flags))

    def test_peak_without_a_budget_lacks_only_what_no_hook_counts(self) -> None:
        for mode in ("forward", "training", "stream-ordered allocation"):
            with self.subTest(mode=mode):
                outcome = run(layers(N, 1, *MODES[mode]))
                own = outcome.stats["peak_device_bytes"] + outcome.stats["context_bytes"]
                self.assertLessEqual(own, outcome.peak)
                self.assertGreaterEqual(own, outcome.peak - 4 * MIB, "code and the rounding of pools")

    def test_peak_falls_by_four_fifths_with_4_of_32_layers(self) -> None:
        command = layers(32, 16, passes=2)
        reference = run(command, without_superpipe=True)
        outcome = run(command, "--k", "4", "--k-prime", "2")
        self.assert_same_output(outcome, reference)
        self.assertLessEqual(outcome.peak, 0.2 * reference.peak)

    def test_peak_grows_with_k(self) -> None:
        peaks = [run(layers(N, 2, passes=3), "--k", str(k)).peak for k in range(1, N + 1)]
        self.assertEqual(peaks, sorted(peaks))
        self.assertLess(peaks[0], peaks[-1])


if __name__ == "__main__":
    unittest.main()
