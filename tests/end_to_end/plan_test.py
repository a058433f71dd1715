"""`superpipe plan` of traces that were recorded on simgpu: what it answers, and what it refuses."""

import json
import os
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

from simulated_run import FAST, LIMIT, MIB, SUPERPIPE, clean_environment, layers

N, LAYER, PASSES = 8, 2, 12


def command(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(SUPERPIPE), *map(str, words)],
                          env={**clean_environment("LD_", "CUDA_"), **FAST}, capture_output=True,
                          text=True,
                          timeout=LIMIT)


class PlanTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.holder = tempfile.TemporaryDirectory(prefix="superpipe-plan-test-")
        cls.addClassCleanup(cls.holder.cleanup)
        cls.folder = Path(cls.holder.name)
        cls.trace = cls.folder / "run.sptrace"
        words = [str(word).replace("{out}", str(cls.folder)) for word in layers(N, LAYER, passes=PASSES)]
        recorded = command("profile", "--simulate", "-o", cls.trace, "--", *words)
        assert recorded.returncode == 0, recorded.stderr

    def plan(self, *words: object, code: int = 0) -> str:
        finished = command("plan", self.trace, *words)
        self.assertEqual(finished.returncode, code, finished.stdout + finished.stderr)
        self.assertEqual(finished.stderr, "", "nothing but problems goes there where it is no terminal")
        return finished.stdout

    def plans(self, *words: object) -> list[dict]:
        return json.loads(self.plan(*words, "--json"))["plans"]

    def test_it_says_what_the_program_needs_and_how_several_budgets_do(self) -> None:
        said = json.loads(self.plan("--json"))
        self.assertEqual(said["launches"], N * PASSES)
        self.assertGreaterEqual(said["passes"], 3)
        self.assertGreaterEqual(said["needed_bytes"], N * LAYER * MIB)
        self.assertLess(said["least_bytes"], said["needed_bytes"])
        self.assertTrue(said["complete"])
        # A busy machine delays some of the few kernels whose times are taken. By these its passes
        # would take longer than they did, and nothing is compared, but why is said.
        self.assertTrue("accuracy" in said or said["accuracy_problem"], said)
        self.assertFalse(said["compute_is_fitted"], "some kernels are timed")
        self.assertGreater(said["measured_compute_share"], 0)
        self.assertGreater(len(said["plans"]), 2)
        for one in said["plans"]:
            self.assertTrue(one["runs"], one)
            self.assertLessEqual(one["peak_device_bytes"], max(one["gpu_mem_bytes"], said["needed_bytes"]))
        passes = [one["pass_ms"] for one in said["plans"]]
        self.assertEqual(said["plans"][0]["h2d_bytes"], 0)
        self.assertGreater(said["plans"][-1]["h2d_bytes"], 0)
        self.assertLessEqual(passes[0], passes[-1] * 1.01)
        text = self.plan()
        self.assertIn("predictions in virtual time, no measurements", text)
        self.assertIn("GPU memory  policy", text)

    def test_it_says_whether_the_trace_tells_what_kernels_write(self) -> None:
        unknown = "does not tell what kernels write"
        self.assertFalse(json.loads(self.plan("--json"))["writes_are_known"])
        self.assertIn(unknown, self.plan())
        trained = self.folder / "trained.sptrace"
        program = [str(word).replace("{out}", str(self.folder)) for word in layers(N, LAYER, "--mode", "train", passes=PASSES)]
        recorded = command("run", "--simulate", "--gpu-mem", f"{2 * N * LAYER}M", "--trace", trained, "--", *program)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        finished = command("plan", trained)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertNotIn(unknown, finished.stdout)
        said = json.loads(command("plan", trained, "--gpu-mem", f"{N * LAYER}M", "--json").stdout)
        self.assertTrue(said["writes_are_known"])
        # Weights, gradients and optimizer states all change in each pass.
        self.assertGreater(said["plans"][0]["d2h_bytes"], 0.8 * said["plans"][0]["h2d_bytes"])

    def test_budgets_policies_and_links_are_asked_for(self) -> None:
        # Over the slow link a pass takes seconds, which no busy machine has the kernels take.
        slow, fast = (self.plans("--gpu-mem", "14M", "--policy", "auto,lru", "--link", link)
                      for link in ("0.01", "gen5"))
        self.assertEqual([one["policy"] for one in slow], ["auto", "lru"])
        self.assertEqual([one["gpu_mem_bytes"] for one in slow], [14 * MIB, 14 * MIB])
        self.assertGreater(slow[0]["pass_ms"], fast[0]["pass_ms"])
        layered = self.plans("--k", "3", "--k-prime", "1")
        self.assertEqual((layered[0]["policy"], layered[0]["k"], layered[0]["k_prime"]), ("superpipeline", 3, 1))

    def test_what_cannot_run_has_exit_code_1_and_says_why(self) -> None:
        self.assertIn("does not run", self.plan("--gpu-mem", "1M", code=1))
        self.assertIn("evicts nothing", self.plan("--gpu-mem", "14M", "--policy", "resident", code=1))

    def test_a_card_fits_or_not(self) -> None:
        self.assertIn("Fits GeForce RTX 4090", self.plan("--fit", "RTX 4090"))
        self.assertIn("Does not fit", self.plan("--fit", "14M"))
        self.assertIn("Does not run on", self.plan("--fit", "3M", code=1))

    def test_a_sweep_has_a_picture(self) -> None:
        picture = self.folder / "trade-off.svg"
        self.plan("--sweep", "--svg", picture)
        root = xml.etree.ElementTree.parse(picture).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        labels = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        for policy in ("auto", "lru", "superpipeline", "naive"):
            self.assertIn(policy, labels)

    def test_a_trace_that_was_cut_off_is_planned_and_said_to_be(self) -> None:
        cut = self.folder / "cut.sptrace"
        cut.write_bytes(self.trace.read_bytes()[:-40])
        finished = command("plan", cut)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("died, or the disk was full", finished.stdout)

    def test_bad_files_have_one_line_and_exit_code_2(self) -> None:
        whole = self.trace.read_bytes()
        middle = len(whole) // 2
        for name, content in {"empty": b"", "foreign": b"hello, world\n" * 10, "short": whole[:20],
                              "damaged": whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1:],
                              "newer": whole[:8] + b"\x63" + whole[9:]}.items():
            with self.subTest(name=name):
                path = self.folder / name
                path.write_bytes(content)
                self.assert_refused(command("plan", path), str(path))
        self.assert_refused(command("plan", self.folder / "none"), "none")

    def test_bad_words_have_one_line_and_exit_code_2(self) -> None:
        for words, says in [([], "it takes a trace"), ([self.trace, self.trace], "is too much"),
                            ([self.trace, "--gpu-mem", "lots"], "'lots' is no size"),
                            ([self.trace, "--policy", "best"], "there is no policy 'best'"),
                            ([self.trace, "--link", "fast"], "--link fast"), ([self.trace, "--fit", "rtx0"], "rtx4090"),
                            ([self.trace, "--k", "0"], "--k 0"), ([self.trace, "--k-prime", "2"], "--k-prime 2"),
                            ([self.trace, "--k", "2", "--gpu-mem", "1G"], "neither --gpu-mem nor"),
                            ([self.trace, "--fit", "24G", "--sweep"], "none of --sweep")]:
            with self.subTest(words=words[1:]):
                self.assert_refused(command("plan", *words), says)
        self.assert_refused(command("plan", self.trace, "--svg", self.folder / "no" / "picture.svg"), "cannot write")

    def assert_refused(self, finished: subprocess.CompletedProcess, says: str) -> None:
        self.assertEqual(finished.returncode, 2, finished.stdout + finished.stderr)
        self.assertEqual(finished.stdout, "")
        self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
        self.assertTrue(finished.stderr.startswith("superpipe plan: "), finished.stderr)
        self.assertIn(says, finished.stderr)


if __name__ == "__main__":
    unittest.main()
