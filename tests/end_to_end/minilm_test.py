"""A real model with real weights gives the same bytes under every policy, with little room and with
much."""

import unittest

from simulated_run import MINILM, WEIGHTS, EndToEndCase, run, some_schedules

LAYERS = 6
COMMAND = [MINILM, "--model", WEIGHTS, "--repeat", "4", "--output", "{out}/embeddings",
           "A small cat.", "The central bank raised its rates.", "A kitten naps."]


@unittest.skipUnless((WEIGHTS / "model.safetensors").is_file(), f"no weights in {WEIGHTS}: run scripts/fetch_minilm")
class Minilm(EndToEndCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.reference = run(COMMAND, without_superpipe=True)

    def test_run_without_superpipe_computes_embeddings(self) -> None:
        self.assert_succeeded(self.reference)
        self.assertEqual(len(self.reference.files["embeddings"]), 3 * 384 * 4)
        self.assertEqual(self.reference.stats, {})

    def test_every_kind_of_schedule_gives_the_same_bytes(self) -> None:
        for flags in [*some_schedules(LAYERS), ("--k", "4"), ("--k", "6")]:
            with self.subTest(flags=" ".join(flags)):
                outcome = run(COMMAND, *flags)
                self.assert_same_output(outcome, self.reference)
                self.assertLessEqual(outcome.peak, 1.02 * self.reference.peak)

    def test_two_layers_of_six_need_at_most_half_the_device_memory(self) -> None:
        outcome = run(COMMAND, "--k", "2")
        self.assert_same_output(outcome, self.reference)
        self.assertEqual(outcome.stats["layers"], LAYERS)
        self.assertEqual(outcome.stats["k"], 2)
        self.assertLessEqual(outcome.peak, 0.5 * self.reference.peak)

    def test_peak_is_what_the_driver_saw(self) -> None:
        for flags in ((), ("--k", "1"), ("--k", "3")):
            with self.subTest(flags=flags):
                self.assert_witnesses_agree(run(COMMAND, *flags))

    def test_reads_sentences_from_standard_input_under_superpipe(self) -> None:
        command = COMMAND[:7]
        text = "A small cat.\nThe central bank raised its rates.\nA kitten naps.\n"
        outcome = run(command, "--k", "2", standard_input=text)
        self.assertEqual(outcome.files, self.reference.files)


if __name__ == "__main__":
    unittest.main()
