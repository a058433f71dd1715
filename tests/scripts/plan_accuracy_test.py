"""bench/plan_accuracy.py compares predictions with runs, and says which are off by too much, or invalid."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT  # noqa: E402  (found through the path above)

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", SOURCE / "build" / "dev"))
sys.path.insert(0, str(SOURCE / "bench"))
import plan_accuracy  # noqa: E402  (found through the path above)


def row(**figures) -> dict:
    return {"program": "train", "percent": 60, "pass_error": -0.05, "peak_error": 0.02, "overrun_share": 0.01,
            "traced_overrun_share": 0.0} | figures


class Goals(unittest.TestCase):
    def test_that_are_met_are_no_failures(self) -> None:
        self.assertEqual(plan_accuracy.failures([row()]), [])

    def test_that_are_missed_either_way_are_said(self) -> None:
        self.assertEqual(plan_accuracy.failures([row(pass_error=-0.06), row(peak_error=0.03)]),
                         ["train with 60 %: the pass is off by -6.0%, at most 5% are allowed",
                          "train with 60 %: the peak is off by +3.0%, at most 2% are allowed"])

    def test_a_machine_that_did_not_keep_up_makes_a_comparison_invalid(self) -> None:
        for late in ("overrun_share", "traced_overrun_share"):
            self.assertEqual(plan_accuracy.failures([row(**{late: 0.02})]),
                             ["train with 60 %: invalid, this machine was slower than simgpu's model by more than 1% of its busy time"])


class Bench(unittest.TestCase):
    def test_traces_predicts_and_runs(self) -> None:
        """As fast as it can be: only that figures come, and that the peak is the run's."""
        program = plan_accuracy.Program(("forward",), 4, 10, 100, 6, 100)
        with tempfile.TemporaryDirectory() as folder:
            options = plan_accuracy.argparse.Namespace(python=None, passes=None, slow=1)
            bench = plan_accuracy.Bench(plan_accuracy.Build(BUILD), options, Path(folder))
            plan_accuracy.PROGRAMS["quick"] = program
            (found,) = bench.measure("quick", [60])
        self.assertGreater(found["predicted_pass_ms"], 0)
        self.assertGreater(found["measured_pass_ms"], 0)
        self.assertLess(abs(found["peak_error"]), 0.1, found)

    def test_a_machine_without_torch_is_said(self) -> None:
        finished = subprocess.run([SOURCE / "bench" / "plan_accuracy.py", "--build", BUILD, "--program", "decode", "--python", "/no/such/python"],
                                  capture_output=True, text=True, check=False, timeout=LIMIT)
        self.assertEqual((finished.returncode, finished.stdout), (2, ""))
        self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)


if __name__ == "__main__":
    unittest.main()
