"""Every byte of every buffer is the same with and without superpipe, for every policy, k and k'."""

from simulated_run import MIB, EndToEndCase, layers, measure, run, schedules

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
# Every schedule for the modes above the line; a sample of them for the combinations.
SAMPLE = [("--policy", "naive", "--k", "1"), ("--k", "2", "--k-prime", "1"), ("--k", "4", "--k-prime", "2"),
          ("--policy", "superpipeline-paper", "--k", "3", "--k-prime", "2"), ("--k", "6", "--k-prime", "5")]


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
        self.check("training", schedules(N))

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
        self.assertEqual((stats["policy"], stats["k"], stats["k_prime"]), ("superpipeline", 3, 1))
        self.assertGreaterEqual(stats["passes"], 5)  # the first ones are needed to learn the order
        self.assertEqual(stats["fetches"], stats["prefetches"] + stats["demand_fetches"])
        self.assertEqual(stats["evictions"], stats["clean_evictions"] + stats["write_backs"])

    def test_superpipeline_hides_the_link_that_naive_waits_for(self) -> None:
        # A layer takes longer to compute than to arrive, so that a window of 4 layers can hide the link.
        command = layers(N, 2, "--compute-us", "4000", passes=10)
        slower = {"SIMGPU_H2D_GBPS": "2", "SIMGPU_D2H_GBPS": "2"}
        overlapped = measure(command, "--k", "4", "--k-prime", "2", environment=slower).stats
        naive = measure(command, "--k", "4", "--policy", "naive", environment=slower).stats
        self.assertLess(overlapped["stall_ms"], naive["stall_ms"])

    def test_peak_is_what_the_driver_saw(self) -> None:
        for flags in (("--k", "1"), ("--k", "4"), ("--gpu-mem", "12M")):
            for mode in ("forward", "training", "stream-ordered allocation"):
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
        peaks = [run(layers(N, 2), "--k", str(k)).peak for k in range(1, N + 1)]
        self.assertEqual(peaks, sorted(peaks))
        self.assertLess(peaks[0], peaks[-1])


if __name__ == "__main__":
    unittest.main()
