"""older_root finds where a machine has Debian's packages from, in both forms of apt's lists."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from house.older_root import Unavailable, machine_sources  # noqa: E402  (found through the path above)

MIRROR = "http://mirror.example/debian"


class MachineSources(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def entry(self, name: str, text: str) -> str:
        file = self.folder / name
        file.write_text(text)
        return machine_sources("bullseye", [file])

    def assert_is_mirror(self, entry: str) -> None:
        self.assertIn(f"URIs: {MIRROR}\nSuites: bullseye\n", entry)

    def test_reads_sources(self) -> None:
        text = f"Types: deb\nURIs: http://mirror.example/other {MIRROR}\nSuites: bookworm\n"
        self.assert_is_mirror(self.entry("debian.sources", text))

    def test_reads_classic_lists(self) -> None:
        for line in (
            f"deb {MIRROR} bookworm main",
            f"deb [arch=amd64 signed-by=/a.gpg] {MIRROR} bookworm main",
            f"deb-src http://sources.example/debian bookworm main\ndeb\t{MIRROR} bookworm main",
        ):
            with self.subTest(line):
                self.assert_is_mirror(self.entry("sources.list", line))

    def test_other_packages_are_not_debians(self) -> None:
        for name, text in (
            ("sources.list", "deb http://mirror.example/ubuntu noble main"),
            ("sources.list", f"# deb {MIRROR} bookworm main"),
            ("debian.sources.disabled", f"URIs: {MIRROR}"),
        ):
            with self.subTest(text), self.assertRaises(Unavailable):
                self.entry(name, text)


if __name__ == "__main__":
    unittest.main()
