"""CMakeLists.txt alone says which version this is: all else takes it from there."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import clean_environment  # noqa: E402  (found through the path above)

ROOT = Path(__file__).resolve().parents[2]
# What tells of a version, and does not say which one this is.
HISTORY = ("CHANGELOG.md", "docs/decisions/", "docs/measurements/")


def version() -> str:
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"^project\(superpipe VERSION ([\d.]+) ", text, re.M)[1]


def lines_with(number: str) -> list[str]:
    """FILE:LINE:TEXT of each line of a tracked file that gives superpipe this version."""
    pattern = rf"superpipe([-_:\" ]|\.version\", \"| VERSION )v?{re.escape(number)}\b"
    found = subprocess.run(
        ["git", "grep", "--color=never", "-P", "--line-number", "-I", "-e", pattern],
        cwd=ROOT,
        env={**clean_environment("GIT_"), "GIT_CONFIG_GLOBAL": "/dev/null"},
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
