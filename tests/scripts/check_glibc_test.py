"""scripts/check_glibc finds what an older glibc lacks."""

import os
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

SCRIPT = Path(os.environ["SUPERPIPE_SOURCE_DIR"]) / "scripts" / "check_glibc"


class CheckGlibc(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.shipped = self.folder / "shipped"
        self.shipped.mkdir()

    def compile(self, source: str, *words: object) -> None:
        subprocess.run(
            [
                "g++",
                "-shared",
                "-nostdlib",
                "-fPIC",
                "-x",
                "c",
                "-",
                "-x",
                "none",
                *map(str, words),
            ],
            input=source,
            text=True,
            check=True,
        )

    def library(self, name: str, version: str, soname: str = "libc.so.6") -> Path:
        """A library in shipped/ that needs a function of `version` in a library `soname`."""
        script, stand_in = self.folder / "versions.map", self.folder / f"stand-in-{soname}"
        script.write_text(f"{version} {{ global: some_function; }};\n")
        self.compile(
            "void some_function(void) {}",
            f"-Wl,-soname,{soname}",
            f"-Wl,--version-script={script}",
            "-o",
            stand_in,
        )
        file = self.shipped / name
        self.compile(
            "void some_function(void); void f(void) { some_function(); }", stand_in, "-o", file
        )
        return file

    def check(self, *words: object) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-B", SCRIPT, *map(str, words)], capture_output=True, text=True
        )

    def test_takes_what_the_oldest_has(self) -> None:
        self.library("good.so", "GLIBC_2.28")
        finished = self.check(self.shipped)
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        self.assertIn(
            "1 binaries, 0 break a rule; the newest symbol allowed that is needed is GLIBC_2.28",
            finished.stdout,
        )

    def test_names_a_newer_symbol(self) -> None:
        self.library("bad.so", "GLIBC_2.29")
        finished = self.check(self.shipped)
        self.assertEqual(finished.returncode, 1)
        self.assertIn("bad.so needs GLIBC_2.29: some_function", finished.stdout)
        self.assertEqual(self.check("--newest", "2.30", self.shipped).returncode, 0)

    def test_names_what_has_no_number(self) -> None:
        self.library("bad.so", "GLIBC_ABI_DT_RELR")
        self.assertIn("needs GLIBC_ABI_DT_RELR", self.check(self.shipped).stdout)

    def test_names_a_library_that_is_not_everywhere(self) -> None:
        self.library("bad.so", "OTHER_1", soname="libother.so.1")
        finished = self.check(self.shipped)
        self.assertEqual(finished.returncode, 1)
        self.assertIn("bad.so needs libother.so.1", finished.stdout)

    def test_names_an_operator_new_that_programs_would_get(self) -> None:
        source = "void *_Znwm(unsigned long size) { (void)size; return 0; } void f(void) {}"
        hidden = Path(os.environ["SUPERPIPE_SOURCE_DIR"]) / "cmake" / "hidden_runtime.map"
        self.compile(source, f"-Wl,--version-script={hidden}", "-o", self.shipped / "good.so")
        self.assertEqual(self.check(self.shipped).returncode, 0)
        self.compile(source, "-o", self.shipped / "bad.so")
        finished = self.check(self.shipped)
        self.assertEqual(finished.returncode, 1)
        self.assertIn(
            "bad.so gives the program its own operator new and delete: _Znwm", finished.stdout
        )

    def test_looks_into_wheels_and_tarballs(self) -> None:
        file = self.library("bad.so", "GLIBC_2.34")
        wheel, tarball = self.folder / "a.whl", self.folder / "a.tar.gz"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.write(file, "package/bad.so")
        with tarfile.open(tarball, "w:gz") as archive:
            archive.add(file, "package/bad.so")
        for path in (wheel, tarball):
            with self.subTest(path.name):
                self.assertIn("package/bad.so needs GLIBC_2.34", self.check(path).stdout)

    def test_unpacks_nothing_outside_its_folder(self) -> None:
        tarball = self.folder / "a.tar.gz"
        with tarfile.open(tarball, "w:gz") as archive:
            archive.add(self.library("good.so", "GLIBC_2.28"), "../good.so")
        finished = self.check(tarball)
        self.assertEqual(finished.returncode, 1)
        self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
        self.assertIn("is not unpacked", finished.stderr)

    def test_refuses_to_judge_nothing(self) -> None:
        self.assertEqual(self.check(self.shipped).returncode, 1)
        self.assertEqual(self.check(self.folder / "nothing").returncode, 2)


if __name__ == "__main__":
    unittest.main()
