"""The site's check of links finds what is wrong, and its navigation loses no page."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT  # noqa: E402  (found through the path above)

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
SITE = SOURCE / "docs" / "site"
sys.path.insert(0, str(SITE))
import navigation  # noqa: E402

GOOD = {
    "index.html": '<a href="docs/a.html#one">a</a> <a href="https://example.org/">there</a>',
    "docs/a.html": '<link rel="stylesheet" href="../s.css"><h1 id="one">A</h1><a href="#one">up</a>'
    '<a href="#">top</a><img src="p%20q.svg"><script src="../s.js"></script>',
    "docs/p q.svg": "<svg/>",
    "s.css": "a { background: url(docs/p%20q.svg) } "
    "b { background: url('data:image/png;base64,AA') }",
    "s.js": "",
}
WRONG = {
    "a page that there is not": (
        "index.html",
        "docs/a.html#one",
        "docs/b.html",
        "leads to no file",
    ),
    "an anchor that there is not": ("index.html", "#one", "#two", "leads to no anchor"),
    "an anchor of its own page": (
        "docs/a.html",
        'href="#one"',
        'href="#two"',
        "leads to no anchor",
    ),
    "a folder": ("index.html", "docs/a.html#one", "docs/", "leads to a folder"),
    "a path from a server's root": (
        "index.html",
        "docs/a.html",
        "/docs/a.html",
        "leads out of the site",
    ),
    "a file outside": ("docs/a.html", "p%20q.svg", "../../p.svg", "leads out of the site"),
    "a picture that there is not": ("docs/a.html", "p%20q.svg", "p.svg", "leads to no file"),
    "a script of another host": (
        "docs/a.html",
        "../s.js",
        "https://example.org/s.js",
        "is loaded from elsewhere",
    ),
    "a style of another host": (
        "docs/a.html",
        "../s.css",
        "//example.org/s.css",
        "is loaded from elsewhere",
    ),
    "a font of another host": (
        "s.css",
        "docs/p%20q.svg",
        "https://example.org/f.woff",
        "is loaded from elsewhere",
    ),
    "a style that imports one": (
        "s.css",
        "a {",
        '@import "https://example.org/s.css"; a {',
        "is loaded from elsewhere",
    ),
    "a file that a style lacks": ("s.css", "docs/p%20q.svg", "p.svg", "leads to no file"),
}


class Links(unittest.TestCase):
    def check(self, files: dict[str, str]) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory(prefix="superpipe-site-") as name:
            for path, text in files.items():
                file = Path(name) / path
                file.parent.mkdir(exist_ok=True)
                file.write_text(text, encoding="utf-8")
            command = [sys.executable, "-B", SITE / "check_links.py", name]
            return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)

    def test_a_good_site_passes(self) -> None:
        checked = self.check(GOOD)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("2 pages, 4 links, 1 of them to other hosts", checked.stdout)

    def test_what_is_wrong_is_found(self) -> None:
        for what, (file, old, new, said) in WRONG.items():
            with self.subTest(what):
                self.assertIn(old, GOOD[file])
                checked = self.check({**GOOD, file: GOOD[file].replace(old, new)})
                self.assertEqual(checked.returncode, 1)
                self.assertRegex(checked.stderr, rf"{re.escape(file)}: .*{said}")

    def test_no_site_is_refused(self) -> None:
        self.assertEqual(self.check({"s.css": ""}).returncode, 1)
        command = [sys.executable, "-B", SITE / "check_links.py", "/proc/nowhere"]
        self.assertEqual(subprocess.run(command, capture_output=True, timeout=LIMIT).returncode, 2)


class Navigation(unittest.TestCase):
    # May be written later, and then has its place.
    LATER = ("docs/deploy",)

    def test_names_pages_that_there_are(self) -> None:
        for group in navigation.GROUPS.values():
            for page in group:
                with self.subTest(page):
                    self.assertTrue(page in self.LATER or (SOURCE / f"{page}.md").is_file())

    def test_every_page_stands_in_one_place(self) -> None:
        pages = [
            "CHANGELOG",
            "docs/README",
            "docs/decisions/0001-a",
            "docs/decisions/README",
            "docs/deploy",
            "docs/install",
            "docs/new",
            "docs/site-of/other",
        ]
        text = "".join(navigation.toctrees(page, pages) for page in pages)
        listed = re.findall(r"^/(\S+)$", text, re.MULTILINE)
        self.assertEqual(sorted([*listed, navigation.FRONT]), pages)
        self.assertIn(f":caption: {navigation.OTHERS}\n\n/docs/new\n/docs/site-of/other\n", text)

    def test_what_there_is_not_is_left_out(self) -> None:
        text = navigation.toctrees(navigation.FRONT, ["docs/README", "docs/install"])
        self.assertEqual(re.findall(r"^/(\S+)$", text, re.MULTILINE), ["docs/install"])


if __name__ == "__main__":
    unittest.main()
