"""The folder in which processes find each other may be any; where it cannot be used, programs run,
and one line says what to do."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from live_budget_test import Program
from simulated_run import FAST, LIMIT, SUPERPIPE, EndToEndCase, clean_environment, layers, run
from hermetic import unprivileged

COMMAND = layers(6, 2)
BUDGET = ("--gpu-mem", "10M")


def look(folder: object, *words: object) -> subprocess.CompletedProcess:
    """`superpipe WORDS` that looks for processes in a folder."""
    return subprocess.run([str(SUPERPIPE), *map(str, words)], capture_output=True, text=True,
                          timeout=LIMIT, stdin=subprocess.DEVNULL,
                          env={**os.environ, "SUPERPIPE_SHARED_FOLDER": str(folder)})


class SharedFolder(EndToEndCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-elsewhere-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_processes_are_found_where_they_were_told_to_be_and_nowhere_else(self) -> None:
        with Program("--gpu-mem", "16M", moves=False,
                     SUPERPIPE_SHARED_FOLDER=str(self.folder)) as program:
            found = look(self.folder, "budget")
            self.assertIn(str(program.pid), found.stdout.split())
            self.assertEqual(look(self.folder, "top", program.pid, "--once").returncode, 0)
            there = self.folder / "there"
            there.mkdir()
            for command in (["budget"], ["top", "--once"]):
                self.assertEqual(look(there, *command).stdout,
                                 f"no process of yours runs under superpipe ({there} has none)\n")
            for command in (["budget", program.pid], ["top", program.pid, "--once"]):
                elsewhere = look(there, *command)
                self.assertEqual((elsewhere.returncode, elsewhere.stdout), (1, ""))
                self.assert_one_line(elsewhere.stderr,
                                     f"is not to be found in {there} (SUPERPIPE_SHARED_FOLDER)")
            self.assert_succeeded(program.finish())
        # What stays is the folder of the user's with the driver's other name.
        stays = {path.name for path in self.folder.iterdir()}
        self.assertEqual(stays, {there.name, f"superpipe-links-{os.geteuid()}"})

    def assert_is_alone(self, folder: object, why: str) -> None:
        reference = run(COMMAND, without_superpipe=True)
        outcome = run(COMMAND, *BUDGET, environment={"SUPERPIPE_SHARED_FOLDER": str(folder),
                                                     "SUPERPIPE_HOST_LEDGER": "shared"})
        self.assert_same_output(outcome, reference)
        self.assertGreater(outcome.stats["evictions"], 0, "it is managed")
        self.assert_one_line("\n".join(self.lines(outcome.stderr, "SUPERPIPE_SHARED_FOLDER")),
                             "top and budget do not find this process",
                             "host memory is not shared", f": {folder}: {why}",
                             "; set SUPERPIPE_SHARED_FOLDER to a folder with room")

    def assert_cannot_look(self, folder: object, why: str) -> None:
        for command in ("top", "budget"):
            for words in ([], [os.getpid()]):
                finished = look(folder, command, *words)
                self.assertEqual((finished.returncode, finished.stdout), (1, ""))
                self.assert_one_line(finished.stderr, f"superpipe {command}: {folder}: {why}",
                                     "; set SUPERPIPE_SHARED_FOLDER to ")

    def test_a_folder_that_is_missing_or_none_is_said(self) -> None:
        file = self.folder / "file"
        file.touch()
        for folder, why in ((self.folder / "missing", "No such file or directory"),
                            (file, "Not a directory"),
                            ("relative", "it is no absolute path")):
            with self.subTest(folder=folder):
                self.assert_is_alone(folder, why)
                self.assert_cannot_look(folder, why)

    def test_a_folder_that_cannot_be_written_is_said(self) -> None:
        asks = unprivileged()
        self.folder.chmod(0o500)
        self.addCleanup(self.folder.chmod, 0o700)
        finished = self.run_in(*asks)
        self.assert_one_line("\n".join(self.lines(finished.stderr, "SUPERPIPE_SHARED_FOLDER")),
                             f": {self.folder}/superpipe-", "Permission denied; set ")
        self.assertEqual(look(self.folder, "budget").returncode, 0)

    def run_in(self, *before: str) -> subprocess.CompletedProcess:
        """The program in the folder, behind `before`; it computed what it should."""
        environment = {**clean_environment("LD_", "CUDA_"), **FAST,
                       "SUPERPIPE_SHARED_FOLDER": str(self.folder),
                       "SUPERPIPE_HOST_LEDGER": "shared"}
        with tempfile.TemporaryDirectory() as out:
            words = [str(word).replace("{out}", out) for word in COMMAND]
            finished = subprocess.run([*before, str(SUPERPIPE), "run", "--simulate", *BUDGET, "--",
                                       *words], env=environment,
                                      capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(finished.returncode, 0, finished.stderr)
            self.assertEqual((Path(out) / "digests").read_bytes(),
                             run(COMMAND, without_superpipe=True).files["digests"])
        return finished

    def test_a_folder_that_is_full_is_said_and_kills_nobody(self) -> None:
        # A namespace of its own may mount what others do not see, where the system lets users have
        # one.
        mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                   'mount -t tmpfs -o size=4k tmpfs "$0" && { cat /dev/zero > "$0/all" 2>/dev/null; '
                   '"$@"; code=$?; ls --ignore="superpipe-links-*" "$0" >&2; exit $code; }',
                   str(self.folder)]
        if subprocess.run([*mounted, "true"], capture_output=True, timeout=LIMIT).returncode != 0:
            self.skipTest("no namespace with a file system of its own is to be had")
        finished = self.run_in(*mounted)
        self.assert_one_line("\n".join(self.lines(finished.stderr, "SUPERPIPE_SHARED_FOLDER")),
                             "top and budget do not find this process",
                             "host memory is not shared", f": {self.folder}/superpipe-",
                             "No space left on device")
        self.assertEqual(finished.stderr.splitlines()[-1], "all", "nothing else is left there")


if __name__ == "__main__":
    unittest.main()
