"""docs/design.md names files and functions that exist, by their paths from the root."""

import os
import re
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
DESIGN = Path("docs") / "design.md"
MODULES = ("policy", "settings", "profiler", "residency", "interposer", "tools")
CODE_SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)")
# A file by its extension, or anything below a folder.
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*(\.(cc|h|cu|py|json|md|map)|/[\w.-]*)")
FUNCTION = re.compile(r"(\w+)\(\)")


def sources_in(root: Path) -> str:
    """The text of all source files of the modules under `root`."""
    return "\n".join(path.read_text(encoding="utf-8") for module in MODULES for path in sorted((root / module).rglob("*"))
                     if path.suffix in (".cc", ".h"))


def missing_in(root: Path) -> list[str]:
    """What the design document under `root` names, in code spans and links, and that is not there."""
    text = (root / DESIGN).read_text(encoding="utf-8")
    sources = sources_in(root)
    missing = []
    for span in CODE_SPAN.findall(text):
        function = FUNCTION.fullmatch(span)
        if function and not re.search(rf"\b{function[1]}\(", sources):
            missing.append(span)
        if PATH.fullmatch(span) and not (root / span).exists():
            missing.append(span)
    missing += [link for link in LINK.findall(text) if not (root / DESIGN.parent / link).exists()]
    return missing


class DesignDocument(unittest.TestCase):
    def test_names_what_there_is(self) -> None:
        self.assertEqual(missing_in(SOURCE), [])

    def test_its_journeys_name_files(self) -> None:
        spans = CODE_SPAN.findall((SOURCE / DESIGN).read_text(encoding="utf-8"))
        self.assertGreater(sum(1 for span in spans if PATH.fullmatch(span)), 50)

    def test_what_is_not_there_is_found(self) -> None:
        with tempfile.TemporaryDirectory(prefix="superpipe-design-") as folder:
            root = Path(folder)
            (root / "docs").mkdir()
            (root / "policy").mkdir()
            (root / "policy" / "budget.h").write_text("int parse_size(int text);\n", encoding="utf-8")
            for good in ("`policy/budget.h`", "`policy/`", "`parse_size()`", "[it](design.md#words)", "`SUPERPIPE_K=4`",
                         "`libcuda.so.1`", "`superpipe run`"):
                (root / DESIGN).write_text(f"See {good}.\n", encoding="utf-8")
                self.assertEqual(missing_in(root), [], good)
            for bad, named in (("`policy/size.h`", "policy/size.h"), ("`budget.h`", "budget.h"), ("`profiler/`", "profiler/"),
                               ("`parse()`", "parse()"), ("[it](words.md)", "words.md")):
                (root / DESIGN).write_text(f"See {bad}.\n", encoding="utf-8")
                self.assertEqual(missing_in(root), [named], bad)


if __name__ == "__main__":
    unittest.main()
