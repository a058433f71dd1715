"""`superpipe plan`: what it says of a trace, and one clear line for each thing that is wrong."""

import json
import subprocess
import unittest
from pathlib import Path

from command_case import BUILD, CommandCase

SUCCESS, PROBLEM, BAD_USAGE = 0, 1, 2


class PlanCommand(CommandCase):
    def setUp(self) -> None:
        super().setUp()
        self.trace = self.root / "run.sptrace"
        self.write_trace(self.trace, "7")

    def write_trace(self, path: Path, *words: str) -> None:
        subprocess.run([BUILD / "tests" / "write_trace", path, *words], check=True, timeout=60)

    def plan(self, *words: str) -> str:
        finished = self.run_superpipe("plan", str(self.trace), *words)
        self.assertEqual((finished.returncode, finished.stderr), (SUCCESS, ""))
        return finished.stdout

    def test_a_link_is_named_with_where_it_is_from(self) -> None:
        for words, link, source in (((), " GB/s each way", "trace"), (("--link", "gen5"), "gen5", "flag")):
            with self.subTest(words=words):
                self.assertIn("\nLink: ", self.plan(*words))
                said = json.loads(self.plan(*words, "--json"))
                self.assertEqual(said["link"]["source"], source)
                self.assertIn(link, said["link"]["name"])

    # The trace says that half of it was on the device, and names no policy that would do so.
    def test_a_plan_that_is_off_for_its_own_run_says_so(self) -> None:
        says = "That is more than 5 % of a pass or 2 % of the peak, and what follows may be as far off: the machine may have done"
        self.assertIn(says, self.plan())
        self.assertFalse(json.loads(self.plan("--json"))["accuracy"]["is_near"])
        self.trace.unlink()
        self.write_trace(self.trace, "4")
        self.assertIn("may be as far off: only 1 pass was measured, the machine may", self.plan())


if __name__ == "__main__":
    unittest.main()
