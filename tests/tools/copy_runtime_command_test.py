"""`superpipe copy-runtime`: what it copies, what it replaces, and what it leaves alone."""

import json
import os
import shutil
import stat
import subprocess
import unittest
from pathlib import Path

from command_case import CommandCase
from hermetic import LIMIT, clean_environment, unprivileged
from run_command_test import BAD_USAGE, CANNOT_RUN


class CopyRuntimeCase(CommandCase):
    def setUp(self) -> None:
        super().setUp()
        licences = self.prefix / "share" / "doc" / "superpipe" / "licenses"
        licences.mkdir(parents=True)
        (licences / "zstd").write_text("a licence\n")
        (licences.parent / "LICENSE").write_text("Apache-2.0\n")
        (self.library.parent / "unwind").mkdir()
        (self.library.parent / "unwind" / "libunwind.so.8").write_text("unwind")
        (self.library.parent / "bench").mkdir()
        (self.library.parent / "bench" / "libbenchmark.so").touch()
        (self.simgpu / "libcudart.so.13.0").touch()
        (self.simgpu / "libcudart.so.13").unlink()
        (self.simgpu / "libcudart.so.13").symlink_to("libcudart.so.13.0")
        (self.prefix / "bin" / "superpipe.simgpu.so").touch()
        self.library.write_text("the library")
        self.folder = self.root / "shared"
        self.copy = self.folder / "superpipe"

    def copied(self, *flags: str) -> None:
        finished = self.run_superpipe("copy-runtime", str(self.folder), *flags)
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        self.assertIn(f"superpipe env --runtime {self.folder}", finished.stdout)

    def files(self) -> set[str]:
        return {
            str(path.relative_to(self.copy))
            for path in self.copy.rglob("*")
            if not path.is_dir() or path.is_symlink()
        }

    def assert_nothing_but(self, *names: str) -> None:
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(names))


class Copied(CopyRuntimeCase):
    WITHOUT_SIMGPU = {
        "superpipe-runtime",
        "bin/superpipe",
        "lib/superpipe/libsuperpipe.so",
        "lib/superpipe/unwind/libunwind.so.8",
        "share/doc/superpipe/LICENSE",
        "share/doc/superpipe/licenses/zstd",
    }

    def test_is_an_installation_without_simgpu(self) -> None:
        self.copied()
        self.assertEqual(self.files(), self.WITHOUT_SIMGPU)
        self.assert_nothing_but("superpipe")
        finished = subprocess.run(
            [self.copy / "bin" / "superpipe", "env", "--format", "json"],
            env=clean_environment("LD_"),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(
            json.loads(finished.stdout)["LD_PRELOAD"],
            str(self.copy / "lib" / "superpipe" / "libsuperpipe.so"),
        )

    def test_has_simgpu_where_that_is_asked_for(self) -> None:
        self.copied("--simulate")
        self.assertGreater(self.files(), self.WITHOUT_SIMGPU)
        link = self.copy / "lib" / "superpipe" / "simgpu" / "libcudart.so.13"
        self.assertEqual(os.readlink(link), "libcudart.so.13.0")
        self.assertTrue((self.copy / "bin" / "superpipe.simgpu.so").exists())

    def test_others_may_read_it_and_not_write_it(self) -> None:
        for mask in (0o000, 0o077):
            with self.subTest(oct(mask)):
                before = os.umask(mask)
                try:
                    self.copied()
                finally:
                    os.umask(before)
                for path in [self.folder, self.copy, *self.copy.rglob("*")]:
                    mode = stat.S_IMODE(path.stat().st_mode)
                    is_open = path.is_dir() or path.name == "superpipe"
                    self.assertEqual(oct(mode), oct(0o755 if is_open else 0o644), path)
                shutil.rmtree(self.folder)

    def test_replaces_a_former_copy_as_a_whole(self) -> None:
        self.copied("--simulate")
        (self.copy / "lib" / "superpipe" / "of-an-older-version.so").touch()
        library = self.copy / "lib" / "superpipe" / "libsuperpipe.so"
        with library.open() as opened:
            self.library.write_text("a newer library")
            self.copied()
            self.assertEqual(opened.read(), "the library", "a running program's file was written")
        self.assertEqual(library.read_text(), "a newer library")
        self.assertEqual(self.files(), self.WITHOUT_SIMGPU)
        self.assert_nothing_but("superpipe")

    def test_several_at_once_leave_one(self) -> None:
        words = [self.prefix / "bin" / "superpipe", "copy-runtime", self.folder]
        started = [
            subprocess.Popen(words, env=clean_environment("LD_"), stdout=subprocess.DEVNULL)
            for _ in range(4)
        ]
        self.assertEqual([each.wait(LIMIT) for each in started], [0, 0, 0, 0])
        self.assertEqual(self.files(), self.WITHOUT_SIMGPU)
        self.assert_nothing_but("superpipe")

    def test_a_folder_that_others_may_write_into_is_said(self) -> None:
        self.folder.mkdir()
        self.folder.chmod(0o777)
        finished = self.run_superpipe("copy-runtime", str(self.folder))
        self.assertEqual(finished.returncode, 0)
        self.assertIn("others may write into", finished.stderr)
        self.folder.chmod(0o1777)
        self.copied()


class Refused(CopyRuntimeCase):
    def assert_refused(self, folder: Path, code: int, *says: str, before: list[str] = []) -> None:
        words = [*before, str(self.prefix / "bin" / "superpipe"), "copy-runtime", str(folder)]
        finished = subprocess.run(
            words, env=clean_environment("LD_"), capture_output=True, text=True, timeout=LIMIT
        )
        self.assert_one_line(finished, code, "superpipe copy-runtime: ", *says)

    def test_bad_usage(self) -> None:
        for words, says in (
            ([], "no folder"),
            (["/a b"], "space"),
            (["a", "b"], "'b' is too much"),
            (["a", "--", "true"], "no command"),
            (["--no-such-flag"], "no flag"),
        ):
            with self.subTest(words):
                finished = self.run_superpipe("copy-runtime", *words)
                self.assert_one_line(finished, BAD_USAGE, "superpipe copy-runtime: ", says)

    def test_a_folder_of_others_stays_as_it_is(self) -> None:
        self.copy.mkdir(parents=True)
        (self.copy / "mine").touch()
        self.assert_refused(self.folder, BAD_USAGE, str(self.copy), "is there")
        self.assertEqual(os.listdir(self.copy), ["mine"])
        shutil.rmtree(self.copy)
        # Another user's link may lead to any folder, and nothing is written there.
        elsewhere = self.root / "elsewhere"
        elsewhere.mkdir()
        self.copy.symlink_to(elsewhere)
        self.assert_refused(self.folder, BAD_USAGE, "is there")
        self.assertEqual(os.listdir(elsewhere), [])
        self.assert_nothing_but("superpipe")

    def test_a_folder_that_cannot_be_made_or_written(self) -> None:
        self.assert_refused(self.root / "no" / "such", BAD_USAGE, "cannot make", "No such file")
        file = self.root / "file"
        file.touch()
        self.assert_refused(file, BAD_USAGE, "cannot write into", "Not a directory")
        self.folder.mkdir()
        self.folder.chmod(0o555)
        self.assert_refused(
            self.folder, BAD_USAGE, "cannot write into", "denied", before=unprivileged()
        )

    def test_a_part_that_cannot_be_read_leaves_the_former_copy(self) -> None:
        self.copied()
        (self.prefix / "share" / "doc" / "superpipe" / "LICENSE").chmod(0)
        self.assert_refused(self.folder, BAD_USAGE, "cannot copy", "LICENSE", before=unprivileged())
        self.assertEqual(self.files(), Copied.WITHOUT_SIMGPU)
        self.assert_nothing_but("superpipe")

    def test_a_library_that_is_missing(self) -> None:
        self.library.unlink()
        self.assert_refused(self.folder, CANNOT_RUN, "missing", str(self.library))
        self.assertFalse(self.folder.exists())


if __name__ == "__main__":
    unittest.main()
