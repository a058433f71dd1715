"""While a program loads and learns, a line tells how far it is: on a terminal, beside what the program prints itself."""

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

import pyte

from live_budget_test import LAYER, PATIENCE, N
from simulated_run import FAST, SUPERPIPE, EndToEndCase, layers

SLOW_US = 160_000  # each of eight layers: a pass takes longer than a second
WIDTH = 110
LINE = r"superpipe\[\d+\]: "


class OnATerminal:
    """superpipe-layers, behind a shell, under `superpipe run --simulate FLAGS`, on a terminal of its own."""

    def __init__(self, *flags: str, passes: int = 6, layer_us: int = SLOW_US, before: str = "", after: str = "",
                 **environment: str) -> None:
        self.screen = pyte.Screen(WIDTH, 40)
        self.stream = pyte.ByteStream(self.screen)
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(("SUPERPIPE_", "SIMGPU_", "LD_", "CUDA_"))}
        program = " ".join(map(str, layers(N, LAYER, "--compute-us", layer_us, passes=passes)))
        self.folder = tempfile.TemporaryDirectory(prefix="superpipe-progress-")
        program = program.replace("{out}", self.folder.name)
        script = f"{before} {SUPERPIPE} run --simulate {' '.join(flags)} -- {program} {after}"
        self.process = subprocess.Popen(["sh", "-c", script], stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        env={**inherited, **FAST, "TERM": "xterm", "LC_ALL": "C", **environment},
                                        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.shown: list[str] = []  # what the screen has been

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
            self.stream.feed(os.read(self.master, 65536))
            if not self.shown or self.shown[-1] != self.text():
                self.shown.append(self.text())

    def wait_for(self, pattern: str) -> str:
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.text()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{pattern!r} not seen, exit code {self.process.poll()}:\n{self.text()}")
            self.read()
        return self.text()

    def finish(self) -> str:
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not end:\n{self.text()}")
            self.read()
        self.read()
        if self.process.returncode != 0:
            raise AssertionError(f"it ends with {self.process.returncode}:\n{self.text()}")
        return self.text()


class Progress(EndToEndCase):
    def test_a_silent_program_has_one_line_that_goes_once_passes_are_known(self) -> None:
        with OnATerminal("--gpu-mem", "12M", after=">/dev/null") as program:
            text = program.wait_for(LINE)
            self.assertEqual(len(text.splitlines()), 1, text)
            self.assertRegex(text, rf"^{LINE}(loading|first pass, \d+ launches); [\d.]+ MiB of [\d.]+ MiB on device")
            text = program.wait_for(LINE + "pass 1 ")
            self.assertEqual(len(text.splitlines()), 1, text)
            self.assertRegex(text, rf"^{LINE}pass 1 [\d.]+ ms \(bound [\d.]+ ms\)(; [\d.]+ MiB of 16 MiB on device)?; [\d.]+ \w+ in, [\d.]+ \w+ out")
            end = program.finish()
            # The last line went before the summary came.
            self.assertNotIn(" on device", end)
            self.assertRegex(end, r"^superpipe: .*\bauto\b")

    def test_what_the_program_prints_stays_whole(self) -> None:
        with OnATerminal("--gpu-mem", "12M", before="printf unfinished;") as program:
            program.wait_for(LINE + "pass 1 ")
            end = program.finish()
        lines = end.splitlines()
        self.assertEqual(lines[0], "unfinished")
        passes = [line for line in lines if line.startswith("pass ")]
        self.assertGreaterEqual(len(passes), 6, end)
        for line in passes:
            self.assertNotIn("superpipe", line)
        with OnATerminal("--gpu-mem", "12M", "--progress", "off", before="printf unfinished;") as program:
            self.assertNotIn(" on device", program.finish())

    def assert_nothing_is_shown(self, program: OnATerminal) -> None:
        self.assertIn("pass 2:", program.finish())
        self.assertFalse([text for text in program.shown if " on device" in text])

    def test_nothing_in_a_pipe(self) -> None:
        for after in ("2>&1 | cat", "2>/dev/null"):
            with self.subTest(after), OnATerminal("--gpu-mem", "12M", passes=3, after=after) as program:
                self.assert_nothing_is_shown(program)

    def test_nothing_where_it_is_switched_off(self) -> None:
        with OnATerminal("--gpu-mem", "12M", passes=3, SUPERPIPE_PROGRESS="off") as program:
            self.assert_nothing_is_shown(program)

    def test_nothing_where_no_cursor_moves(self) -> None:
        with OnATerminal("--gpu-mem", "12M", passes=3, TERM="dumb") as program:
            self.assert_nothing_is_shown(program)


if __name__ == "__main__":
    unittest.main()
