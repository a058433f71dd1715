"""scripts/lint accepts a good source, and rejects each kind of violation put into it. CI calls this after the lint step."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))

GOOD = """#include "residency/residency_core.h"

namespace superpipe {

std::uint64_t turns_of(ResidencyCore& core) {
  const ManagerLock lock(core.mutex);
  return core.turns + (core.buffers[BufferId{0}].live ? 1 : 0);
}

}  // namespace superpipe
"""
LOCK = "  const ManagerLock lock(core.mutex);\n"

# What replaces what, one after the other, and what must be said.
SEEDED = [
    (LOCK, "", "reading variable 'turns' requires holding mutex"),
    ("core.buffers", "core.buffers", "reading variable 'live' requires holding mutex"),
    ("turns_of", "TurnsOf", "readability-identifier-naming"),
    ("core.turns + ", "core.turns + (std::uint64_t)1 + ", "google-readability-casting"),
    ("  return", "  const int unused = 1;\n  return", "unused variable 'unused'"),
]


@unittest.skipUnless(shutil.which("clang-tidy") and shutil.which("clang++"), "needs clang++ and clang-tidy")
class LintTest(unittest.TestCase):
    def lint(self, text: str) -> tuple[int, str]:
        # Inside the project, whose .clang-tidy is looked for upwards, under the name of a source of which the compile
        # commands know how it is compiled.
        (SOURCE / "build").mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=SOURCE / "build") as folder:
            file = Path(folder) / "residency" / "residency_core.cc"
            file.parent.mkdir()
            file.write_text(text)
            finished = subprocess.run([SOURCE / "scripts" / "lint", file], capture_output=True, text=True)
            return finished.returncode, finished.stdout + finished.stderr

    def test_accepts_a_good_source(self) -> None:
        code, output = self.lint(GOOD)
        self.assertEqual(code, 0, output)

    def test_rejects_each_seeded_violation(self) -> None:
        text = GOOD
        for good, bad, _ in SEEDED:
            self.assertIn(good, text)
            text = text.replace(good, bad)
        code, output = self.lint(text)
        self.assertNotEqual(code, 0, output)
        for _, _, says in SEEDED:
            with self.subTest(says):
                self.assertIn(says, output)

    def test_finds_a_violation_among_the_sources_that_it_reads_several_at_a_time(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            clone = Path(folder) / "superpipe"
            subprocess.run(["git", "clone", "--quiet", SOURCE, clone], check=True)
            with (clone / "policy" / "budget.cc").open("a") as source:
                source.write("namespace superpipe { int Unexpected() { return (int)1L; } }\n")
            finished = subprocess.run([clone / "scripts" / "lint", "policy"], capture_output=True, text=True)
        self.assertNotEqual(finished.returncode, 0, finished.stdout)
        for says in ("budget.cc", "readability-identifier-naming", "google-readability-casting"):
            self.assertIn(says, finished.stdout)


if __name__ == "__main__":
    unittest.main()
