"""docs/troubleshooting.md quotes messages that are in the sources."""

import os
import re
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
PAGE = Path("docs") / "troubleshooting.md"
FOLDERS = ("interposer", "residency", "profiler", "settings", "policy", "tools/superpipe", "python")
QUOTES = re.compile(r"^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"")
# Literals that a compiler joins, also in a macro of several lines.
JOINED = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:[\s\\]*"(?:[^"\\\n]|\\.)*")*')
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
ELSEWHERE = "…"


def literals_of(text: str) -> str:
    """The string literals of a source, one a line."""
    text = COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else "", text)
    joined = ("".join(LITERAL.findall(found[0])) for found in JOINED.finditer(text))
    return "\n".join(literal.replace('\\"', '"').replace("\\n", " ") for literal in joined)


def sources_in(root: Path) -> list[str]:
    files = (
        file
        for folder in FOLDERS
        for file in sorted((root / folder).rglob("*"))
        if "generated" not in file.parts
    )
    return [
        literals_of(file.read_text(encoding="utf-8"))
        for file in files
        if file.suffix in (".cc", ".h", ".py")
    ]


def messages_in(root: Path) -> list[str]:
    """The quoted messages, each in one line."""
    text = (root / PAGE).read_text(encoding="utf-8")
    return [
        line for quote in QUOTES.findall(text) for line in quote.replace("\n  ", " ").splitlines()
    ]


def parts_of(message: str) -> list[str]:
    """What of `message` does not change."""
    message = re.sub(r"^superpipe(?: \w+)?: ", "", message)
    return [part.strip(" :;,.'") for part in message.split(ELSEWHERE) if re.search(r"\w{2}", part)]


def missing_in(root: Path) -> list[str]:
    """Messages of the page under `root` that no source has: all parts of one, in any order."""
    sources = sources_in(root)
    return [
        message
        for message in messages_in(root)
        if not any(all(part in source for part in parts_of(message)) for source in sources)
    ]


class Troubleshooting(unittest.TestCase):
    def test_quotes_what_the_sources_say(self) -> None:
        self.assertGreater(len(messages_in(SOURCE)), 100)
        self.assertEqual(missing_in(SOURCE), [])

    def test_no_quote_is_too_short_to_be_found(self) -> None:
        for message in messages_in(SOURCE):
            with self.subTest(message):
                self.assertTrue(any(len(part) >= 10 for part in parts_of(message)))

    def test_what_no_source_says_is_found(self) -> None:
        with tempfile.TemporaryDirectory(prefix="superpipe-messages-") as folder:
            root = Path(folder)
            (root / "docs").mkdir()
            (root / "policy").mkdir()
            (root / "policy" / "a.cc").write_text(
                '// "of a comment"\nsay("the disk " + name + " is full; "\n'
                '    "free \\"some\\"");\n'
            )
            for good in (
                'the disk … is full; free "some"',
                "superpipe run: the disk …",
                "the disk … is full;\n  free",
            ):
                (root / PAGE).write_text(f"# It\n\n```text\n{good}\n```\n", encoding="utf-8")
                self.assertEqual(missing_in(root), [], good)
            for bad in (
                "the disk is full",
                "the disk … was full",
                "of a comment",
                "the disk …\nis full; free none",
            ):
                (root / PAGE).write_text(f"```text\n{bad}\n```\n", encoding="utf-8")
                self.assertEqual(len(missing_in(root)), 1, bad)


if __name__ == "__main__":
    unittest.main()
