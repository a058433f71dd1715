"""While a program loads and learns, a line tells how far it is: on a terminal, beside what the program prints itself."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest
from pathlib import Path

import pyte

from live_budget_test import LAYER, N
from simulated_run import FAST, LIMIT, SUPERPIPE, EndToEndCase, clean_environment, layers

SLOW_US = 160_000  # each of eight layers: a pass takes longer than a second, and the line comes before the first is over
WIDTH = 110
LINE = r"superpipe\[\d+\]: "


class OnATerminal:
    """superpipe-layers, behind a shell, under `superpipe run --simulate FLAGS`, on a terminal of its own, pass after pass until
    finish()."""

    def __init__(self, *flags: str, before: str = "", after: str = "", **environment: str) -> None:
        self.screen = pyte.Screen(WIDTH, 40)
        self.stream = pyte.ByteStream(self.screen)
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
        self.folder = tempfile.TemporaryDirectory(prefix="superpipe-progress-")
        self.end = Path(self.folder.name) / "end"
        program = " ".join(map(str, layers(N, LAYER, "--compute-us", SLOW_US, "--until", self.end,
                                           passes=2)))
        program = program.replace("{out}", self.folder.name)
        script = f"{before} {SUPERPIPE} run --simulate {' '.join(flags)} -- {program} {after}"
        # One pass at most is submitted when it shall end.
        variables = {**clean_environment("LD_", "CUDA_"), **FAST, "SIMGPU_QUEUE_DEPTH": "4",
                     "TERM": "xterm", "LC_ALL": "C", **environment}
        self.process = subprocess.Popen(["sh", "-c", script], stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave, env=variables,
                                        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.shown: list[str] = []  # all that the screen has been

    def __enter__(self) -> "OnATerminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)
        self.folder.cleanup()

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def read(self) -> None:
        while select.select([self.master], [], [], 0.05)[0]:
            # What was there before the cursor moved counts too, however late it is read.
            for part in re.split(rb"(?=[\r\x1b])", os.read(self.master, 65536)):
                self.stream.feed(part)
                if not self.shown or self.shown[-1] != self.text():
                    self.shown.append(self.text())

    def wait_for(self, pattern: str) -> str:
        """What the screen was when it matched."""
        deadline = time.monotonic() + LIMIT
        while not (found := [text for text in self.shown if re.search(pattern, text)]):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{pattern!r} not seen, exit code {self.process.poll()}:\n{self.text()}")
            self.read()
        return found[0]

    def finish(self) -> str:
        self.end.touch()
        deadline = time.monotonic() + LIMIT
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not end:\n{self.text()}")
            self.read()
        self.read()
        if self.process.returncode != 0:
            raise AssertionError(f"it ends with {self.process.returncode}:\n{self.text()}")
        return self.text()


class Progress(EndToEndCase):
    def test_a_silent_program_has_one_line_that_goes(self) -> None:
        with OnATerminal("--gpu-mem", "12M", after=">/dev/null") as program:
            # What the line says at which time is tested with a clock of the tests' own
            # (run_progress_test.cc).
            told = rf"^{LINE}((loading|first pass, \d+ launches); [\d.]+ MiB of [\d.]+ MiB on device|pass \d+ [\d.]+ ms)"
            text = program.wait_for(told)
            self.assertEqual(len(text.splitlines()), 1, text)
            end = program.finish()
            # The last line went before the summary came.
            self.assertNotRegex(end, LINE)
            self.assertRegex(end, r"^superpipe: .*\bauto\b")

    def test_what_the_program_prints_stays_whole(self) -> None:
        with OnATerminal("--gpu-mem", "12M", before="printf unfinished;") as program:
            program.wait_for(LINE)
            end = program.finish()
        lines = end.splitlines()
        self.assertEqual(lines[0], "unfinished")
        passes = [line for line in lines if line.startswith("pass ")]
        self.assertGreaterEqual(len(passes), 2, end)
        for line in passes:
            self.assertNotIn("superpipe", line)

    def test_nothing_is_shown_where_it_is_switched_off_or_nobody_could_see_it(self) -> None:
        """Side by side with one that shows it: once that one does, these would."""
        with contextlib.ExitStack() as stack:
            def program(*flags: str, **more: str) -> OnATerminal:
                return stack.enter_context(OnATerminal("--gpu-mem", "12M", *flags, **more))

            silent = {"a pipe": program(after="2>&1 | cat"),
                      "nowhere": program(after="2>/dev/null"),
                      "the flag": program("--progress", "off"),
                      "the variable": program(SUPERPIPE_PROGRESS="off"),
                      "no cursor": program(TERM="dumb")}
            program().wait_for(LINE)
            for name, one in silent.items():
                with self.subTest(name):
                    self.assertIn("pass 2:", one.finish())
                    self.assertFalse([text for text in one.shown if re.search(LINE, text)])


if __name__ == "__main__":
    unittest.main()
