"""`superpipe top` shows programs that run on simgpu: as a table, JSON, metrics, and on a terminal."""

import fcntl
import json
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
from collections.abc import Callable
from pathlib import Path

import pyte

from live_budget_test import LAYER, N, Program, budget, stop
from simulated_run import LIMIT, MIB, SUPERPIPE, EndToEndCase
from hermetic import segment_of, wait_until


def top(*words: object, **more: object) -> subprocess.CompletedProcess:
    """`superpipe top WORDS`, with standard output and input in pipes."""
    return subprocess.run([str(SUPERPIPE), "top", *map(str, words)], capture_output=True, text=True,
                          timeout=LIMIT,
                          stdin=subprocess.DEVNULL, **more)


def processes(text: str) -> dict[int, dict]:
    return {process["pid"]: process for process in json.loads(text)["processes"]}


def look_at(pid: int, is_there: Callable[[dict], object] = lambda _: True) -> dict:
    """What `superpipe top --once --json` shows of a process, once it answers and `is_there` what
    the test wants to see."""
    seen: dict = {}

    def look() -> bool:
        seen.update(processes(top("--once", "--json", "--interval", "0.1").stdout)[pid])
        return seen["state"] == "running" and bool(is_there(seen))

    wait_until(look, lambda: f"not seen: {seen}")
    return seen


class Terminal:
    """`superpipe top WORDS` on a terminal of its own, until the end of the block."""

    def __init__(self, *words: object, height: int = 24, width: int = 80, name: str = "vt100") -> None:
        self.show(height, width)
        self.master, self.slave = pty.openpty()
        self.resize(height, width)
        self.before = termios.tcgetattr(self.slave)
        environment = {**os.environ, "TERM": name, "LC_ALL": "C"}
        for variable in ("LINES", "COLUMNS"):
            environment.pop(variable, None)
        self.process = subprocess.Popen([str(SUPERPIPE), "top", *map(str, words)], env=environment, stdin=self.slave,
                                        stdout=self.slave, stderr=subprocess.PIPE, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, height: int, width: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        if (height, width) != (self.screen.lines, self.screen.columns):
            self.show(height, width)

    def show(self, height: int, width: int) -> None:
        """Begins with an empty screen."""
        self.screen = pyte.Screen(width, height)
        self.stream = pyte.Stream(self.screen)

    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def read(self, seconds: float) -> None:
        if select.select([self.master], [], [], seconds)[0]:
            self.stream.feed(os.read(self.master, 65536).decode("ascii"))

    def wait_for(self, *parts: str) -> str:
        """The screen once it shows all of `parts`."""
        deadline = time.monotonic() + LIMIT
        while any(part not in self.text() for part in parts):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{parts} not seen, exit code {self.process.poll()}:\n{self.text()}")
            self.read(0.05)
        return self.text()

    def finish(self) -> int:
        deadline = time.monotonic() + LIMIT
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not end:\n{self.text()}")
            self.read(0.05)
        self.read(0)  # all that it wrote is there
        return self.process.returncode

    def is_restored(self) -> bool:
        """Whether the line discipline is as it was, and the cursor at the bottom."""
        return termios.tcgetattr(self.slave) == self.before


class Once(EndToEndCase):
    def test_a_table_of_all(self) -> None:
        with Program("--gpu-mem", "12M") as program:
            # It fetches all the time, which shows when it has done so between two looks.
            look_at(program.pid, lambda seen: seen["rates"]
                    and seen["rates"]["h2d_bytes_per_second"] > 0)
            lines: list[list[str]] = []

            def is_whole() -> bool:
                found = top("--once")
                self.assertEqual((found.returncode, found.stderr), (0, ""))
                lines[:] = (line.split() for line in found.stdout.splitlines())
                return len(lines[1]) == len(lines[0])  # else it did not answer in time

            wait_until(is_whole, lambda: f"no row of as many words as the heading: {lines}")
            heading, row = lines
            self.assertEqual(heading, ["PID", "PROGRAM", "POLICY", "PAGES", "BUDGET", "FETCH/s",
                                       "STALL", "PASS", "BOUND"])
            self.assertEqual((row[0], row[1], row[2], row[4]),
                             (str(program.pid), "superpipe-layer", "auto", "12M"))
            # Standard output is no terminal here.
            self.assertEqual(top(program.pid).stdout.splitlines()[0].split(), heading)

    def test_json_agrees_with_what_the_program_says_at_its_end(self) -> None:
        with Program("--gpu-mem", "12M") as program:
            before = look_at(program.pid)
            after = look_at(program.pid, lambda seen: seen["last_pass"]["ms"]
                            and seen["rates"]["h2d_bytes_per_second"] > 0
                            and seen["rates"]["launches_per_second"] > 0
                            and seen["counts"]["h2d_bytes"] > before["counts"]["h2d_bytes"])
            outcome = program.finish()
        stats = outcome.stats
        self.assertEqual(after["budget_bytes"], 12 * MIB)
        self.assertEqual(after["live_bytes"], before["live_bytes"])
        self.assertGreaterEqual(after["live_bytes"], N * LAYER * MIB)
        self.assertLessEqual(after["pages_bytes"], after["limit_bytes"])
        self.assertEqual(after["context_bytes"], stats["context_bytes"])
        self.assertGreater(after["pinned_host_bytes"], 0)
        self.assertLessEqual(after["pinned_host_bytes"], after["host_limit_bytes"])
        for name, last in (("launches", "launches"), ("h2d_bytes", "h2d_bytes"), ("d2h_bytes", "d2h_bytes"),
                           ("prefetches", "prefetches"), ("write_backs", "write_backs"), ("stall_ms", "stall_ms"),
                           ("clean_evictions", "clean_evictions"), ("demand_fetches", "demand_fetches")):
            with self.subTest(name):
                self.assertLessEqual(before["counts"][name], after["counts"][name])
                self.assertLessEqual(after["counts"][name], stats[last])
        self.assertGreaterEqual(after["last_pass"]["over_bound"], 0.99)

    def test_layers_under_policies_that_need_none(self) -> None:
        for policy in ("auto", "lru"):
            with self.subTest(policy), Program("--gpu-mem", "12M", "--policy", policy) as program:
                look_at(program.pid, lambda seen: seen["layers"] is not None)
                for _ in range(3):
                    # At a moment in which all that fits is still on its way, no share is on the device.
                    found = look_at(program.pid, lambda seen: sum(seen["layers"]["percent_on_device"]) > 0)
                    shares = found["layers"]["percent_on_device"]
                    self.assertEqual((found["layers"]["count"], len(shares)), (N, N), "the same in each look")
                    self.assertIsNone(found["layers"]["k"])
                    self.assertLess(sum(shares), 100 * N)
                    # No more than there is room for, but for pieces that are on their way at this moment.
                    self.assertLessEqual(sum(shares) / 100 * LAYER * MIB, found["limit_bytes"] + LAYER * MIB)

    def test_programs_whose_budget_cannot_be_changed_are_shown_too(self) -> None:
        with Program("--k", "3", moves=False) as program:
            found = look_at(program.pid, lambda seen: seen["layers"] is not None
                            and seen["last_pass"]["ms"] is not None)
            self.assertEqual((found["layers"]["count"], found["layers"]["k"]), (N, 3))
            self.assertFalse(found["budget_can_change"])
            self.assertIsNone(found["budget_bytes"])
        with Program("--policy", "resident", moves=False) as program:
            found = look_at(program.pid)
            self.assertIsNone(found["limit_bytes"])
            self.assertEqual(found["counts"]["h2d_bytes"], 0)

    def test_a_process_that_does_not_answer_is_named_and_not_waited_for(self) -> None:
        with Program("--gpu-mem", "12M") as program:
            stop(program.pid)
            row = next(row for row in top("--once").stdout.splitlines() if str(program.pid) in row)
            self.assertIn("(not answering)", row)
            self.assertEqual(processes(top("--once", "--json").stdout)[program.pid]["state"], "not_answering")
            # A request for a budget that it has not seen is not lost for that.
            self.assertEqual(budget(program.pid, "14M", "--timeout", "0.2").returncode, 1)
            top("--once", "--prometheus", "/dev/null")
            os.kill(program.pid, signal.SIGCONT)
            look_at(program.pid, lambda seen: seen["budget_bytes"] == 14 * MIB)

    def test_segments_of_the_dead_are_swept_and_bad_ones_named(self) -> None:
        with Program("--gpu-mem", "12M") as program:
            program.process.kill()
            program.process.wait()
            self.assertTrue(segment_of(program.pid).exists(), "who is killed cannot tidy up")
            self.assertNotIn(str(program.pid), top("--once").stdout.split())
            self.assertFalse(segment_of(program.pid).exists())
        own = segment_of(os.getpid())
        self.addCleanup(own.unlink, missing_ok=True)
        for content in (b"short", b"\xff" * 4096, os.urandom(4096)):
            own.write_bytes(content)
            row = next(row for row in top("--once").stdout.splitlines() if str(os.getpid()) in row)
            self.assertIn("(damaged segment)", row)
            self.assertEqual(processes(top("--once", "--json").stdout)[os.getpid()]["state"], "damaged")
            self.assert_one_line(top(os.getpid()).stderr, "superpipe top: ", "damaged", "remove it")
        with Program("--gpu-mem", "12M") as program:
            # One that runs writes its page anew as soon as it finds another one there.
            os.kill(program.pid, signal.SIGSTOP)
            with segment_of(program.pid).open("r+b") as file:
                file.seek(8)
                file.write((99).to_bytes(4, "little"))
            self.assertIn("(another version of superpipe)", top("--once").stdout)
            self.assert_one_line(top(program.pid, "--json").stderr, "another version")
            os.kill(program.pid, signal.SIGCONT)

    def test_bad_usage(self) -> None:
        for words in (("x",), ("-1x",), ("12", "13"), ("--interval", "0"), ("--interval", "x"), ("--interval", "nan"),
                      ("--no-such-flag",), ("--once", "--prometheus", "/no/such/folder/file"), ("--prometheus", "/no/such/folder/file"),
                      ("--", "true")):
            answer = top(*words)
            self.assertEqual(answer.returncode, 2, words)
            self.assert_one_line(answer.stderr, "superpipe top")
        ended = subprocess.Popen(["true"])
        ended.wait()
        answer = top(ended.pid, "--once")
        self.assertEqual(answer.returncode, 1)
        self.assert_one_line(answer.stderr, "there is no process")


class Repeated(EndToEndCase):
    def test_json_by_interval_until_the_process_ends(self) -> None:
        with Program("--gpu-mem", "12M") as program:
            watching = subprocess.Popen([str(SUPERPIPE), "top", str(program.pid), "--json",
                                         "--interval", "0.1"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
            self.addCleanup(watching.kill)
            looks: list[dict] = []

            def has_rates() -> bool:
                looks.append(processes(watching.stdout.readline())[program.pid])
                return looks[-1]["rates"] is not None

            # There are none where the process did not answer within the interval.
            wait_until(has_rates, "no look has rates", rest=0)
            self.assert_succeeded(program.finish())
            rest, errors = watching.communicate(timeout=LIMIT)
            self.assertEqual((watching.returncode, errors), (0, ""))
        looks += [processes(line)[program.pid] for line in rest.splitlines()]
        launches = [look["counts"]["launches"] for look in looks]
        self.assertEqual(launches, sorted(launches))
        self.assertIsNone(looks[0]["rates"])

    def test_ends_when_nobody_reads_it_any_longer(self) -> None:
        # As under a shell or a supervisor that ignores SIGPIPE.
        for words in (["--json", "--interval", "0.1"], ["--json", "--once"], ["--once"]):
            with self.subTest(words=words):
                ours, theirs = os.pipe()
                if "--once" in words:  # It writes as soon as it has begun: nobody may read even then.
                    os.close(ours)
                watching = subprocess.Popen([str(SUPERPIPE), "top", *words], stdout=theirs, stderr=subprocess.PIPE, text=True,
                                            stdin=subprocess.DEVNULL, restore_signals=False,
                                            preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
                os.close(theirs)
                if "--once" not in words:
                    self.assertIn(b"processes", os.read(ours, 65536))
                    os.close(ours)
                try:
                    _, errors = watching.communicate(timeout=LIMIT)
                finally:
                    watching.kill()
                self.assertEqual(watching.returncode, 2)
                self.assert_one_line(errors, "superpipe top: cannot write standard output: Broken pipe")

    def test_metrics_for_prometheus(self) -> None:
        with tempfile.TemporaryDirectory() as folder, Program("--gpu-mem", "12M") as program:
            file = Path(folder) / "superpipe.prom"
            label = f'pid="{program.pid}",program="superpipe-layer",policy="auto"'

            def is_up() -> bool:
                once = top("--once", "--prometheus", file)
                self.assertEqual((once.returncode, once.stdout, once.stderr), (0, "", ""))
                return f"superpipe_up{{{label}}} 1\n" in file.read_text()

            def whole(file: Path) -> str:
                text = file.read_text()
                self.assertTrue(text.endswith("\n"), "it is half written")
                return text

            value = lambda text: int(re.search(rf"^superpipe_h2d_bytes_total{{{label}}} (\d+)$", text, re.M)[1])
            wait_until(is_up, lambda: f"it does not answer: {file.read_text()}")
            first = value(file.read_text())
            writer = subprocess.Popen([str(SUPERPIPE), "top", "--prometheus", str(file), "--interval", "0.1"],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(writer.kill)
            wait_until(lambda: value(whole(file)) > first, "it is not written again")
            writer.terminate()
            stdout, stderr = writer.communicate(timeout=LIMIT)
            self.assertEqual((writer.returncode, stdout, stderr), (-signal.SIGTERM, "", ""))
            self.assertEqual(os.listdir(folder), [], "old figures would be taken for new ones")


class OnATerminal(EndToEndCase):
    def test_shows_chooses_and_gives_budgets(self) -> None:
        with Program("--gpu-mem", "40M") as first, Program("--gpu-mem", "30M") as second, \
                Terminal("--interval", "0.2") as terminal:
            low, high = sorted((first, second), key=lambda program: program.pid)
            shown = terminal.wait_for("superpipe top: 2 processes", f"process {low.pid}: auto", "layers", "host", "moved",
                                      "fetch/s", "q quit")
            self.assertIn("PID  PROGRAM", shown)
            terminal.press("j")
            terminal.wait_for(f"process {high.pid}: auto")
            terminal.press("k")
            terminal.wait_for(f"process {low.pid}: auto")
            terminal.press("\x1bOB")  # the down arrow, in the mode that ncurses asks for
            terminal.wait_for(f"process {high.pid}: auto")
            terminal.press("b12Q\r")
            terminal.wait_for("'12Q' is no size")
            terminal.press("b")
            terminal.wait_for(f"new budget of process {high.pid}")
            terminal.press("12X\x7fM\r")
            terminal.wait_for(f"the budget of process {high.pid} is 12 MiB now")
            terminal.wait_for("budget 12M, context")
            self.assertIn("budget 12 MiB", budget(high.pid).stdout)
            terminal.press("b1M\r")
            terminal.wait_for("allow more")
            terminal.press("?")
            terminal.wait_for("Any key goes back.")
            terminal.press("x")
            terminal.wait_for("q quit", f"process {high.pid}: auto")
            terminal.press("s")
            terminal.wait_for("ordered by pages")
            second.process.kill()
            second.process.wait()
            terminal.wait_for("superpipe top: 1 process;")
            terminal.press("q")
            self.assertEqual(terminal.finish(), 0)
            self.assertTrue(terminal.is_restored())

    def test_a_process_that_stops_is_named_and_keys_still_work(self) -> None:
        with Program("--gpu-mem", "12M") as program, Terminal(program.pid, "--interval",
                                                              "0.2") as terminal:
            terminal.wait_for(f"process {program.pid}: auto")
            stop(program.pid)
            terminal.wait_for("1 not answering", "(not answering)", "the figures are old")
            terminal.press("?")
            terminal.wait_for("Any key goes back.")
            terminal.press("x")
            os.kill(program.pid, signal.SIGCONT)
            terminal.wait_for("superpipe top: 1 process;")

    def test_follows_the_size_of_the_terminal(self) -> None:
        with Program("--gpu-mem", "12M") as program, Terminal(program.pid, "--interval",
                                                              "0.2") as terminal:
            terminal.wait_for("fetch/s", "q quit")
            terminal.resize(8, 60)
            shown = terminal.wait_for("superpipe top: 1 process", str(program.pid), "q quit")
            self.assertNotIn("fetch/s ", shown)
            self.assertIn("q quit", shown.splitlines()[7])
            terminal.resize(40, 132)
            shown = terminal.wait_for("superpipe top: 1 process", "fetch/s", "q quit")
            self.assertIn("q quit", shown.splitlines()[39])
            terminal.resize(2, 5)
            terminal.wait_for("super", " q qu")

    def test_restores_the_terminal_on_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number), Terminal() as terminal:
                terminal.wait_for("superpipe top: ")
                self.assertFalse(terminal.is_restored(), "it takes keys one by one")
                terminal.process.send_signal(number)
                self.assertEqual(terminal.finish(), -number)
                self.assertTrue(terminal.is_restored())
        with Terminal() as terminal:  # as the terminal sends it
            terminal.wait_for("superpipe top: ")
            terminal.press("\x03")
            self.assertEqual(terminal.finish(), -signal.SIGINT)
            self.assertTrue(terminal.is_restored())

    def test_ends_with_the_process_that_it_watches(self) -> None:
        with Program("--gpu-mem", "12M") as program, Terminal(program.pid) as terminal:
            terminal.wait_for(f"process {program.pid}: auto")
            program.process.kill()
            program.process.wait()
            self.assertEqual(terminal.finish(), 0)
            self.assertTrue(terminal.is_restored())

    def test_a_terminal_that_nobody_knows_is_named(self) -> None:
        with Terminal(name="no-such-terminal") as terminal:
            self.assertEqual(terminal.finish(), 1)
            self.assert_one_line(terminal.process.stderr.read().decode(), "superpipe top: ", "no-such-terminal", "--once")


if __name__ == "__main__":
    unittest.main()
