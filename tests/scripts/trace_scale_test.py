"""bench/trace_scale.py measures superpipe's tools on a trace, and says which goals they miss."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", SOURCE / "build" / "dev"))
sys.path.insert(0, str(SOURCE / "bench"))
import trace_scale  # noqa: E402  (found through the path above)


def row(**figures) -> dict:
    return {"tool": "plan", "trace": "moving", "events": 10, "seconds": 59.0, "most_seconds": 60.0, "peak_bytes": 1 << 30} | figures


class Goals(unittest.TestCase):
    def test_that_are_met_are_no_failures(self) -> None:
        self.assertEqual(trace_scale.failures([row()]), [])

    def test_that_are_missed_are_said(self) -> None:
        self.assertEqual(trace_scale.failures([row(seconds=61.5), row(peak_bytes=(1 << 30) + (1 << 20))]),
                         ["plan of 10 events, moving: 61.50 s, the goal is 60 s",
                          "plan of 10 events, moving: 1025 MiB, the goal is 1024 MiB"])


class Bench(unittest.TestCase):
    def test_runs_all_tools_over_both_shapes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            figures = Path(folder) / "figures.json"
            finished = subprocess.run([SOURCE / "bench" / "trace_scale.py", "--build", BUILD, "--events", "20000", "--budgets", "3",
                                       "--json", figures], capture_output=True, text=True, check=False)
            self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
            rows = json.loads(figures.read_text())
        self.assertEqual([(found["trace"], found["tool"]) for found in rows],
                         [(shape, tool) for shape in ("moving", "resident") for tool in ("report", "diff", "plan")])
        for found in rows:
            self.assertGreater(found["seconds"], 0, found)
            self.assertGreater(found["peak_bytes"], 1 << 20, found)


if __name__ == "__main__":
    unittest.main()
