"""CMakeLists.txt alone says which version this is: all else takes it from there."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What tells of a version, and does not say which one this is.
HISTORY = ("CHANGELOG.md", "docs/decisions/", "docs/measurements/")


def version() -> str:
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"^project\(superpipe VERSION ([\d.]+) ", text, re.M)[1]


def lines_with(words: str) -> list[str]:
    """FILE:LINE:TEXT of each line of a tracked file that has `words` as a word."""
    found = subprocess.run(
        ["git", "grep", "--word-regexp", "--fixed-strings", "--line-number", "-I", "-e", words],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if found.returncode > 1:
        raise unittest.SkipTest("this is no git checkout")
    return found.stdout.splitlines()


class Version(unittest.TestCase):
    def test_stands_in_one_place(self) -> None:
        repeated = [line for line in lines_with(version()) if not line.startswith(HISTORY)]
        self.assertEqual(len(repeated), 1, repeated)
        self.assertTrue(repeated[0].startswith("CMakeLists.txt:"), repeated)

    def test_the_changelog_begins_with_it(self) -> None:
        first = re.search(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
        self.assertEqual(first, version())

    def test_a_version_elsewhere_is_found(self) -> None:
        self.assertTrue([line for line in lines_with("0.1.0") if line.startswith("tests/")])


if __name__ == "__main__":
    unittest.main()
