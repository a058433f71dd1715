"""bench/pass_time.py refuses runs in which the machine was slower than simgpu's model."""

import os
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "bench"))
import pass_time  # noqa: E402  (found through the path above)


def report(overrun: float) -> dict:
    row = {"policy": "superpipeline", "k": 2, "k_prime": None, "same_output": True, "overrun": overrun, "goal": 1.15,
           "times_bound": 1.05}
    fits = {"moved": 0, "same_output": True, "overrun": overrun, "goal": 1.02, "ratio": {"pass": 1.0, "wall": 1.0}}
    auto = {"mode": "train", "percent": 50, "same_output": True, "overrun": overrun, "goal": 1.08, "times_bound": 1.05}
    return {"link_bound": {"rows": [row]}, "auto": {"rows": [auto]}, "everything_fits": fits, "peaks": []}


class Overruns(unittest.TestCase):
    def test_of_a_hundredth_of_the_busy_time_are_accepted(self) -> None:
        self.assertEqual(pass_time.failures(report(0.01)), [])

    def test_of_more_refuse_the_run(self) -> None:
        found = pass_time.failures(report(0.02))
        self.assertEqual(len(found), 3, found)
        for line in found:
            self.assertIn("invalid, this machine was slower than simgpu's model by 2.0% of its busy time", line)


class Goals(unittest.TestCase):
    def test_that_auto_misses_are_said(self) -> None:
        missed = report(0.0)
        missed["auto"]["rows"][0] |= {"times_bound": 1.2, "same_output": False}
        self.assertEqual(pass_time.failures(missed), ["auto, train with 50 %: another output than the run without superpipe",
                                                      "auto, train with 50 %: 1.200 times the bound, the goal is 1.08"])


if __name__ == "__main__":
    unittest.main()
