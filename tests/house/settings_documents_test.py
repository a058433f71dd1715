"""README's table of settings is what policy/settings.cc says, and the manual page is one that man can show."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", SOURCE / "build" / "dev")).resolve()
README = SOURCE / "README.md"
K_ROW = "| `--k N` | `SUPERPIPE_K` | Layers kept on the device |\n"


def settings_table(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-B", SOURCE / "scripts" / "settings_table", "--build", BUILD, *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)


class ReadmeTable(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-readme-")
        self.addCleanup(folder.cleanup)
        self.copy = Path(folder.name) / "README.md"

    def test_agrees_with_the_settings(self) -> None:
        checked = settings_table("--check", README)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_a_difference_is_found_and_repaired(self) -> None:
        good = README.read_text(encoding="utf-8")
        rows = [line for line in good.splitlines(keepends=True) if line.startswith("| `--")]
        self.assertIn(K_ROW, rows)
        for what, bad in (("another default", good.replace("; default 1M", "; default 2M")),
                          ("another flag", good.replace("`--k-prime N`", "`--kprime N`")),
                          ("a setting is missing", good.replace(K_ROW, "")),
                          ("a setting that there is not", good.replace(K_ROW, K_ROW + K_ROW.replace("k N", "z N"))),
                          ("another order", good.replace(K_ROW, "").replace(rows[1], rows[1] + K_ROW)),
                          ("the table is cut short", good.replace(K_ROW, "\n" + K_ROW))):
            with self.subTest(what):
                self.assertNotEqual(bad, good)
                self.copy.write_text(bad, encoding="utf-8")
                checked = settings_table("--check", self.copy)
                self.assertEqual(checked.returncode, 1)
                self.assertIn("run scripts/settings_table", checked.stderr)
                self.assertEqual(self.copy.read_text(encoding="utf-8"), bad)
                if what != "the table is cut short":  # what was cut off stays for its author to delete
                    self.assertEqual(settings_table(self.copy).returncode, 0)
                    self.assertEqual(self.copy.read_text(encoding="utf-8"), good)

    def test_a_file_without_the_table_is_refused(self) -> None:
        for text in ("no table\n", "| flag | variable | meaning |\n\n| flag | variable | meaning |\n"):
            self.copy.write_text(text, encoding="utf-8")
            self.assertEqual(settings_table("--check", self.copy).returncode, 1)


class ManualPage(unittest.TestCase):
    PAGE = BUILD / "share" / "man" / "man1" / "superpipe-run.1"

    def test_is_built_from_the_settings(self) -> None:
        printed = subprocess.run([BUILD / "tools" / "print_run_manual", "page"], capture_output=True, text=True, check=True)
        self.assertEqual(self.PAGE.read_text(encoding="utf-8"), printed.stdout)

    @unittest.skipUnless(shutil.which("groff"), "there is no groff")
    def test_is_shown_without_warnings(self) -> None:
        self.assertEqual(self.warnings(self.PAGE.read_text(encoding="utf-8")), "")
        # What is looked for would be found.
        self.assertNotEqual(self.warnings(".TH X 1\n.SH NAME\n.nosuchmacro\n"), "")

    @staticmethod
    def warnings(page: str) -> str:
        return subprocess.run(["groff", "-man", "-ww", "-z"], input=page, capture_output=True, text=True,
                              timeout=60).stderr

    def test_printer_refuses_what_it_does_not_print(self) -> None:
        for words in ((), ("poem",), ("page", "table")):
            self.assertEqual(subprocess.run([BUILD / "tools" / "print_run_manual", *words], capture_output=True).returncode, 2)


if __name__ == "__main__":
    unittest.main()
