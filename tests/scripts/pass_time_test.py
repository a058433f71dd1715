"""bench/pass_time.py refuses runs in which the machine was slower than simgpu's model."""

import os
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "bench"))
import pass_time  # noqa: E402  (found through the path above)


def report(overrun: float) -> dict:
    row = {"policy": "superpipeline", "k": 2, "k_prime": 1, "same_output": True, "overrun": overrun, "goal": 1.15,
           "times_bound": 1.05}
    fits = {"moved": 0, "same_output": True, "overrun": overrun, "goal": 1.02, "ratio": {"pass": 1.0, "wall": 1.0}}
    return {"link_bound": {"rows": [row]}, "everything_fits": fits, "peaks": []}


class Overruns(unittest.TestCase):
    def test_of_a_hundredth_of_the_busy_time_are_accepted(self) -> None:
        self.assertEqual(pass_time.failures(report(0.01)), [])

    def test_of_more_refuse_the_run(self) -> None:
        found = pass_time.failures(report(0.02))
        self.assertEqual(len(found), 2, found)
        for line in found:
            self.assertIn("invalid, this machine was slower than simgpu's model by 2.0% of its busy time", line)


if __name__ == "__main__":
    unittest.main()
