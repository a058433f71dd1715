"""scripts/simgpu_passed notices each change after which simgpu's suite has to run again."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


class SimgpuPassed(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="simgpu-passed-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.git("init", "--quiet")
        for name in (
            "tools/simgpu/driver.cc",
            "tests/simgpu/test.cc",
            "tests/conformance/copy.cc",
            "cmake/Flags.cmake",
            "policy/policy.cc",
        ):
            self.write(name, "first\n")

    def git(self, *words: str) -> None:
        subprocess.run(
            ["git", *words], cwd=self.root, check=True, capture_output=True, env=ENVIRONMENT
        )

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.git("add", name)

    def has_passed(self, *words: str, **variables: str) -> bool:
        command = [
            sys.executable,
            "-B",
            SOURCE / "scripts" / "simgpu_passed",
            "--root",
            self.root,
            *words,
        ]
        finished = subprocess.run(
            command, capture_output=True, text=True, env={**ENVIRONMENT, **variables}
        )
        self.assertIn(finished.returncode, (0, 1), finished.stderr)
        return finished.returncode == 0

    def test_nothing_has_passed_before_it_is_recorded(self) -> None:
        self.assertFalse(self.has_passed())
        self.assertTrue(self.has_passed("--record"))
        self.assertTrue(self.has_passed())

    def test_what_simgpu_is_made_of_counts_and_nothing_else(self) -> None:
        self.has_passed("--record")
        self.git("add", "tests/simgpu/passed.json")
        self.write("policy/policy.cc", "second\n")
        self.assertTrue(self.has_passed(), "policy is not part of it")
        self.write("tools/simgpu/README.md", "second\n")
        self.assertTrue(self.has_passed(), "no test of the suite reads its documentation")
        for name in (
            "tools/simgpu/driver.cc",
            "tests/simgpu/test.cc",
            "tests/conformance/copy.cc",
            "cmake/Flags.cmake",
        ):
            with self.subTest(name):
                self.write(name, "second\n")
                self.assertFalse(self.has_passed())
                self.write(name, "first\n")
                self.assertTrue(self.has_passed())

    def test_files_that_come_go_or_are_renamed_count(self) -> None:
        self.has_passed("--record")
        self.write("tools/simgpu/new.cc", "")
        self.assertFalse(self.has_passed())
        self.git("rm", "--quiet", "--force", "tools/simgpu/new.cc")
        self.assertTrue(self.has_passed())
        self.git("mv", "tests/simgpu/test.cc", "tests/simgpu/other.cc")
        self.assertFalse(self.has_passed())

    def test_another_compiler_counts(self) -> None:
        self.has_passed("--record")
        compiler = self.root / "bin" / "c++"
        compiler.parent.mkdir()
        compiler.write_text("#!/bin/sh\necho another compiler\n")
        compiler.chmod(0o755)
        self.assertFalse(self.has_passed(PATH=f"{compiler.parent}:{os.environ['PATH']}"))


if __name__ == "__main__":
    unittest.main()
