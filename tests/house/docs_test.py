#!/usr/bin/env python3
"""The site that scripts/docs built opens without a server, and pages that are wrong are refused.

    tests/house/docs_test.py SITE

Not among ctest's tests, because Sphinx comes from a network.
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT  # noqa: E402  (found through the path above)

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "docs/README.md": "# Front\n\n[Install](install.md#with-pip), [the project](../README.md), "
    "[a file](../LICENSE)\n",
    "docs/install.md": "# Install\n\n## With pip\n\n```console\n$ true\n```\n",
    "README.md": "# The project\n\n[Front](docs/README.md#front)\n",
    "LICENSE": "text\n",
}


class Site(unittest.TestCase):
    site: Path

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-docs-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def build(self, pages: dict[str, str]) -> subprocess.CompletedProcess:
        for path, text in pages.items():
            file = self.folder / "source" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        folders = ["--source", self.folder / "source", "--output", self.folder / "site"]
        command = [sys.executable, "-B", ROOT / "scripts" / "docs", *folders]
        return subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=LIMIT
        )

    def test_opens_without_a_server(self) -> None:
        front = re.search(r"url=([\w/.]+)", (self.site / "index.html").read_text(encoding="utf-8"))
        text = (self.site / front[1]).read_text(encoding="utf-8")
        for page in (
            "install.html",
            "first-run.html",
            "recipes/vllm.html",
            "troubleshooting.html",
            "../CHANGELOG.html",
        ):
            with self.subTest(page):
                self.assertIn(f'href="{page}"', text)
                self.assertTrue((self.site / "docs" / page).is_file())
        # The search's words come by a script, which a browser loads from a folder too.
        self.assertIn(
            'src="searchindex.js"', (self.site / "search.html").read_text(encoding="utf-8")
        )
        self.assertIn("budget", (self.site / "searchindex.js").read_text(encoding="utf-8"))

    def test_what_is_wrong_is_refused(self) -> None:
        good = self.build(PAGES)
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
        wrong = (
            "# Front\n\n[no page](setup.md), [no anchor](install.md#with-conda), "
            "[no file](../NOTICE)\n\n"
            "![of another host](https://example.org/a.png)\n\n### A level is left out\n"
        )
        built = self.build({**PAGES, "docs/README.md": wrong})
        self.assertNotEqual(built.returncode, 0)
        for part in (
            "setup.md",
            "with-conda",
            "NOTICE",
            "https://example.org/a.png is loaded from elsewhere",
            "H1 to H3",
        ):
            with self.subTest(part):
                self.assertIn(part, built.stderr)

    def test_another_folder_is_left_alone(self) -> None:
        kept = self.folder / "site" / "kept.txt"
        kept.parent.mkdir()
        kept.write_text("mine\n")
        built = self.build(PAGES)
        self.assertEqual(built.returncode, 1)
        self.assertIn("holds something else than a site", built.stderr)
        self.assertEqual(kept.read_text(), "mine\n")


if __name__ == "__main__":
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "index.html").is_file():
        sys.exit("docs_test: name the site that scripts/docs wrote")
    Site.site = Path(sys.argv.pop(1)).resolve()
    unittest.main()
