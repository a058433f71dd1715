"""The list of scripts/removed_orderings fits the sources, and the script says so when it does not."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
LIST = Path("tests") / "residency" / "removed_orderings.json"


def check(root: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-B", str(root / "scripts" / "removed_orderings"), "--check"],
                          capture_output=True, text=True)


class RemovedOrderings(unittest.TestCase):
    def test_each_is_in_the_sources_once(self) -> None:
        checked = check(SOURCE)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_there_are_at_least_15_and_each_says_what_breaks(self) -> None:
        entries = json.loads((SOURCE / LIST).read_text())["orderings"]
        self.assertGreaterEqual(len(entries), 15)
        for entry in entries:
            self.assertEqual(set(entry), {"name", "file", "find", "replace", "breaks"})
            self.assertTrue(entry["breaks"].endswith("."), entry["name"])

    def test_a_text_that_is_gone_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name in ("scripts/removed_orderings", "scripts/changed_sources.py", str(LIST)):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(SOURCE / name, root / name)
            shutil.copytree(SOURCE / "residency", root / "residency")
            entry = json.loads((SOURCE / LIST).read_text())["orderings"][0]
            changed = root / entry["file"]
            changed.write_text(changed.read_text().replace(entry["find"], ""))
            checked = check(root)
        self.assertEqual(checked.returncode, 2)
        self.assertIn(entry["name"], checked.stderr)


if __name__ == "__main__":
    unittest.main()
