"""superpipe-minilm against the independent numpy implementation, and what it does with bad input."""

import functools
import importlib.util
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from program import MODEL, ON_SIMGPU, PLUGIN, SOURCE, THREADS, ProgramCase, require, require_model, run

REFERENCE = [sys.executable, "-B", str(SOURCE / "scripts" / "minilm_reference.py"), "--model", str(MODEL)]
FEW = ["A cat sits on the mat.", "Zürich, café; naïve!"]
MANY = [
    *FEW,
    "",
    "The quick brown fox jumps over the lazy dog.",
    "   spaces \t and tabs   ",
    "Ça coûte 12,50 € — n'est-ce pas? (peut-être) [oui] {non} <fin> #1 @home 100% a_b c^d `e` ~f |g| \\h",
    "深度学习 and 한국어 und Ελληνικά, кириллица; עברית",
    "Pneumonoultramicroscopicsilicovolcanoconiosis is unbelievably long-winded.",
    "x" * 150,
    "\U0001F600 emoji \u200b zero width \u00ad soft hyphen",
    "A long sentence has to be cut at the limit that the model was trained with. " * 30,
]
LINES = ("\n".join(MANY) + "\n").encode()


def setUpModule() -> None:
    require_model()


class Tokens(ProgramCase):
    """The tokenizers, which share no code, agree on every id."""

    def assert_same_tokens(self, text: bytes) -> None:
        ours = run("minilm", PLUGIN, "--model", MODEL, "--tokens", standard_input=text)
        self.assert_done(ours)
        theirs = subprocess.run([*REFERENCE, "--tokens"], input=text, capture_output=True, check=True)
        for line, (a, b) in enumerate(zip(ours.stdout.splitlines(), theirs.stdout.splitlines(), strict=True)):
            self.assertEqual(a, b, text.split(b"\n")[line])

    def test_sentences(self) -> None:
        self.assert_same_tokens(LINES)

    def test_random_code_points(self) -> None:
        choose = random.Random(20240229)
        blocks = [(0x20, 0x7F), (0xA0, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE00), (0x1100, 0x1200),
                  (0x1E00, 0x2100), (0x2100, 0x3000), (0x3000, 0x3400), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4),
                  (0xF900, 0xFB50), (0x1D400, 0x1D800), (0x1F300, 0x1F700), (0x20000, 0x20100), (0xE000, 0x110000)]
        lines = []
        for _ in range(3000):
            block = choose.choice(blocks)
            lines.append("".join(chr(choose.randrange(*block)) if choose.random() < 0.8 else choose.choice(" a.E")
                                 for _ in range(choose.randrange(1, 30))))
        self.assert_same_tokens("\n".join(lines).encode("utf-8", errors="replace") + b"\n")


class Embeddings(ProgramCase):
    """Every way to compute the kernels gives what the reference gives."""

    @classmethod
    def setUpClass(cls) -> None:
        require(importlib.util.find_spec("numpy") is not None, "numpy: run scripts/setup")

    @staticmethod
    @functools.cache
    def reference(text: bytes) -> bytes:
        """The reference's embeddings of the lines: float32, 384 a line."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "embeddings"
            subprocess.run([*REFERENCE, "--output", str(path)], input=text, check=True, capture_output=True)
            return path.read_bytes()

    def assert_like_reference(self, how: str, text: bytes, *options: str) -> None:
        import numpy as np

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "embeddings"
            finished = run("minilm", how, "--model", MODEL, "--output", path, *options, standard_input=text)
            self.assert_done(finished)
            a, b = (np.frombuffer(content, "<f4").reshape(-1, 384).astype(float)
                    for content in (path.read_bytes(), self.reference(text)))
        self.assertEqual(a.shape, b.shape)
        self.assertEqual(len(a), text.count(b"\n"))
        np.testing.assert_allclose(np.linalg.norm(a, axis=1), 1, atol=1e-5)
        cosines = (a * b).sum(axis=1)
        self.assertGreater(cosines.min(), 0.9999, cosines)
        self.assertLess(abs(a - b).max(), 1e-4)
        # The comparison can fail: no sentence's embedding passes for another's.
        others = a @ b.T - 2 * np.eye(len(a))
        self.assertLess(others.max(), 0.999)

    def test_plugin(self) -> None:
        self.assert_like_reference(PLUGIN, LINES)

    def test_plugin_in_small_batches(self) -> None:
        self.assert_like_reference(PLUGIN, LINES, "--batch-tokens", "256", "--repeat", "2")

    def test_device_code_thread_by_thread(self) -> None:
        self.assert_like_reference(THREADS, ("\n".join(FEW) + "\n").encode())

    def test_simgpu(self) -> None:
        self.assert_like_reference(ON_SIMGPU, LINES, "--repeat", "2")

    def test_similar_sentences_are_similar(self) -> None:
        finished = run("minilm", PLUGIN, "--model", MODEL, "A cat naps.", "A kitten is sleeping.", "Rates rose.")
        self.assert_done(finished)
        rows = [line.split() for line in finished.stdout.decode().splitlines()[-3:]]
        self.assertEqual([row[0] for row in rows], ["1", "2", "3"])
        self.assertGreater(float(rows[0][2]), 0.5)
        self.assertLess(float(rows[0][3]), 0.2)


class Deterministic(ProgramCase):
    def test_two_runs_give_the_same_bytes(self) -> None:
        for how in (PLUGIN, ON_SIMGPU):
            with self.subTest(how=how), tempfile.TemporaryDirectory() as folder:
                results = []
                for i in range(2):
                    path = Path(folder) / str(i)
                    self.assert_done(run("minilm", how, "--model", MODEL, "--output", path, *FEW))
                    results.append(path.read_bytes())
                self.assertEqual(results[0], results[1])


class BadInput(ProgramCase):
    def test_missing_model(self) -> None:
        finished = run("minilm", PLUGIN, "--model", "/nonexistent", "a")
        self.assert_refused(finished, 1, "/nonexistent/model.safetensors", "scripts/fetch_minilm")

    def test_missing_model_by_variable(self) -> None:
        finished = run("minilm", PLUGIN, "a", SUPERPIPE_MINILM_DIR="/nonexistent")
        self.assert_refused(finished, 1, "/nonexistent/model.safetensors")

    def test_damaged_models(self) -> None:
        whole = (MODEL / "model.safetensors").read_bytes()
        damaged = {
            "cut off": (whole[: len(whole) // 2], "past the end"),
            "cut in the header": (whole[:100], "cut off inside the header"),
            "another format": (b"\x93NUMPY\x01\x00v" + b" " * 100, "not a safetensors file"),
            "another model": (whole.replace(b"encoder.layer.5.", b"encoder.layer.6.", 1), "encoder.layer.5."),
            "empty": (b"", "empty"),
        }
        for name, (content, message) in damaged.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "vocab.txt").symlink_to(MODEL / "vocab.txt")
                (Path(folder) / "model.safetensors").write_bytes(content)
                self.assert_refused(run("minilm", PLUGIN, "--model", folder, "a"), 1, "model.safetensors", message)

    def test_another_vocabulary(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "vocab.txt").write_text("[CLS]\n[SEP]\n")
            (Path(folder) / "model.safetensors").symlink_to(MODEL / "model.safetensors")
            self.assert_refused(run("minilm", PLUGIN, "--model", folder, "a"), 1, "vocab.txt", "30522")

    def test_command_lines(self) -> None:
        for words, part in ((["--modle", "x"], "--modle"), (["--model"], "--model"), (["--repeat", "0", "a"], "--repeat"),
                            (["--batch-tokens", "many", "a"], "--batch-tokens"), (["--tokens=1"], "--tokens"),
                            (["--model", str(MODEL)], "no sentences")):
            with self.subTest(words=words):
                self.assert_refused(run("minilm", PLUGIN, *words), 2, part)

    def test_output_that_cannot_be_written(self) -> None:
        finished = run("minilm", PLUGIN, "--model", MODEL, "--output", "/nonexistent/file", "a")
        self.assertEqual(finished.returncode, 1)
        self.assertIn(b"/nonexistent/file", finished.stderr)

    def test_help(self) -> None:
        finished = run("minilm", PLUGIN, "--help")
        self.assert_done(finished)
        self.assertIn(b"usage: superpipe-minilm", finished.stdout)


if __name__ == "__main__":
    unittest.main()
