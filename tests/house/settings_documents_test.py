"""The table of docs/settings.md is what settings/settings.cc says, and manual pages are those that man can show."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT  # noqa: E402  (found through the path above)

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", SOURCE / "build" / "dev")).resolve()
PAGE = SOURCE / "docs" / "settings.md"
K_ROW = "| `--k N` | `SUPERPIPE_K` | Layers kept on the device |\n"


def settings_table(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-B", SOURCE / "scripts" / "settings_table", "--build", BUILD, *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=LIMIT)


class SettingsTable(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-settings-")
        self.addCleanup(folder.cleanup)
        self.copy = Path(folder.name) / "settings.md"

    def test_agrees_with_the_settings(self) -> None:
        checked = settings_table("--check")
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_a_difference_is_found_and_repaired(self) -> None:
        good = PAGE.read_text(encoding="utf-8")
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


class ManualPages(unittest.TestCase):
    PAGES = sorted((BUILD / "share" / "man" / "man1").glob("*.1"))

    def test_there_is_one_for_the_command_and_each_subcommand(self) -> None:
        told = subprocess.run([BUILD / "bin" / "superpipe", "--help"], capture_output=True, text=True, check=True).stdout
        subcommands = re.findall(r"^  ([\w-]+) ", told[told.index("Subcommands:"):], re.MULTILINE)
        self.assertIn("run", subcommands)
        self.assertEqual(sorted(page.stem for page in self.PAGES),
                         sorted(["superpipe", *(f"superpipe-{name}" for name in subcommands)]))

    def test_every_flag_of_help_has_an_entry(self) -> None:
        for page in self.PAGES:
            words = page.stem.split("-", 1)[1:]
            told = subprocess.run([BUILD / "bin" / "superpipe", *words, "--help"], capture_output=True, text=True, check=True)
            flags = re.findall(r"^  (-\S+)", told.stdout, re.MULTILINE)
            self.assertIn("-h,--help", flags)
            text = page.read_text(encoding="utf-8")
            for flag in ",".join(flags).split(","):
                with self.subTest(page=page.name, flag=flag):
                    self.assertIn("\\fB" + flag.replace("-", "\\-") + "\\fR", text)

    @unittest.skipUnless(shutil.which("groff"), "there is no groff")
    def test_groff_has_no_warnings(self) -> None:
        for page in self.PAGES:
            self.assertEqual(self.groff(page.read_text(encoding="utf-8")), "")
        # What is looked for would be found.
        self.assertNotEqual(self.groff(".TH X 1\n.SH NAME\n.nosuchmacro\n"), "")

    @unittest.skipUnless(shutil.which("mandoc"), "there is no mandoc (scripts/setup --developer)")
    def test_mandoc_has_no_warnings(self) -> None:
        for page in self.PAGES:
            with self.subTest(page=page.name):
                self.assertEqual(self.mandoc(page.read_text(encoding="utf-8")), [])
        self.assertNotEqual(self.mandoc(".TH X 1\n.SH NAME\n.nosuchmacro\n"), [])

    @staticmethod
    def groff(page: str) -> str:
        return subprocess.run(["groff", "-man", "-ww", "-z"], input=page, capture_output=True, text=True,
                              timeout=LIMIT).stderr

    @staticmethod
    def mandoc(page: str) -> list[str]:
        told = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=page,
                              capture_output=True, text=True, timeout=LIMIT)
        # The same sources always make the same page, which therefore has no date.
        return [line for line in (told.stdout + told.stderr).splitlines() if "missing date" not in line]

    def test_printer_refuses_what_it_does_not_print(self) -> None:
        for words in ((), ("poem",), ("share",), ("table", "share")):
            self.assertEqual(subprocess.run([BUILD / "tools" / "print_manuals", *words], capture_output=True).returncode, 2)

    def test_printer_says_what_it_cannot_write(self) -> None:
        told = subprocess.run([BUILD / "tools" / "print_manuals", "share", "/proc/nowhere"], capture_output=True, text=True)
        self.assertEqual(told.returncode, 1)
        self.assertIn("print_manuals: ", told.stderr)


if __name__ == "__main__":
    unittest.main()
