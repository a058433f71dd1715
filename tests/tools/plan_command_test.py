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
        for words, link, source in (((), " GB/s to the device and ", "trace"), (("--link", "gen5"), "gen5", "flag")):
            with self.subTest(words=words):
                self.assertIn("\nLink: ", self.plan(*words))
                said = json.loads(self.plan(*words, "--json"))
                self.assertEqual(said["link"]["source"], source)
                self.assertIn(link, said["link"]["name"])


if __name__ == "__main__":
    unittest.main()
