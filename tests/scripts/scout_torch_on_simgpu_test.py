"""What scripts/scout_torch_on_simgpu says where it cannot run, and how it judges. Needs no torch."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(os.environ["SUPERPIPE_SOURCE_DIR"]) / "scripts" / "scout_torch_on_simgpu"
PARTS = ["bin/superpipe", "lib/superpipe/libsuperpipe.so"] + [
    f"lib/superpipe/simgpu/{name}"
    for name in ("libcuda.so.1", "libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13")]


class SkipTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        for part in PARTS:
            (self.path / part).parent.mkdir(parents=True, exist_ok=True)
            (self.path / part).touch()

    def python(self, lines: str) -> Path:
        """Something that answers like a Python interpreter."""
        program = self.path / "python"
        program.write_text("#!/bin/sh\n" + lines)
        program.chmod(0o755)
        return program

    def run_script(self, *arguments) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-B", SCRIPT, "--build", self.path, *arguments], capture_output=True, text=True)

    def assert_skipped(self, finished: subprocess.CompletedProcess, reason: str):
        self.assertEqual(finished.returncode, 77)
        self.assertEqual(finished.stdout, "")
        self.assertEqual(finished.stderr.count("\n"), 1)
        self.assertIn(reason, finished.stderr)

    def test_says_that_torch_is_missing(self):
        self.assert_skipped(self.run_script("--python", self.python("exit 1\n")), "has no torch")

    def test_says_that_torch_is_for_another_cuda(self):
        self.assert_skipped(self.run_script("--python", self.python("echo 2.11.0 12.8\n")), "torch 2.11.0 is for 12.8")
        self.assert_skipped(self.run_script("--python", self.python("echo 2.11.0+cpu no CUDA\n")), "is for no CUDA")

    def test_says_that_python_is_missing(self):
        self.assert_skipped(self.run_script("--python", self.path / "nothing"), "cannot be run")

    def test_says_what_is_not_built(self):
        (self.path / PARTS[-1]).unlink()
        self.assert_skipped(self.run_script("--python", self.python("exit 1\n")), PARTS[-1])

    def test_refuses_a_step_that_does_not_exist(self):
        finished = self.run_script("--steps", "matmul,nothing")
        self.assertEqual(finished.returncode, 2)
        self.assertIn("no step is called nothing", finished.stderr)


class VerdictTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        loader = importlib.machinery.SourceFileLoader("scout_torch_on_simgpu", str(SCRIPT))
        cls.script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(cls.script)

    def verdict(self, first: dict, second: dict, managed: dict) -> str:
        return self.script.verdict([first, second], managed)

    def test_tells_same_bytes_from_others(self):
        one, other = {"sha256": "1"}, {"sha256": "2"}
        self.assertEqual(self.verdict(one, one, one), "same bytes")
        self.assertEqual(self.verdict(one, one, other), "DIFFERS")

    def test_blames_superpipe_for_no_result_that_does_not_repeat_without_it(self):
        one, other, third = {"sha256": "1"}, {"sha256": "2"}, {"sha256": "3"}
        self.assertEqual(self.verdict(one, other, third), "runs, not reproducible")
        self.assertEqual(self.verdict(one, {"error": "SIGSEGV"}, one), "runs, not reproducible")

    def test_tells_who_failed(self):
        one, failure = {"sha256": "1"}, {"error": "SIGSEGV"}
        self.assertEqual(self.verdict(failure, failure, failure), "blocked")
        self.assertEqual(self.verdict(one, one, failure), "FAILS UNDER SUPERPIPE")


if __name__ == "__main__":
    unittest.main()
