"""A program gets another budget while it runs, and gives way to other processes; its results stay the same."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from simulated_run import FAST, MIB, SUPERPIPE, EndToEndCase, Outcome, layers, run

N, LAYER = 8, 2
PASSES, LAYER_US = 300, 2000  # some seconds, of which each test needs a part
PATIENCE = 60
SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def segment(pid: int) -> Path:
    return Path("/dev/shm") / f"superpipe-{os.geteuid()}-{os.stat('/proc/self/ns/pid').st_ino}-{pid}"


def state_of(task: Path) -> str:
    """What the kernel says that a thread does, as one letter: T, it is stopped. Of one that has ended too."""
    try:
        return (task / "stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return "T"


def budget(*words: object) -> subprocess.CompletedProcess:
    """`superpipe budget WORDS`."""
    return subprocess.run([str(SUPERPIPE), "budget", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE)


class Program:
    """superpipe-layers under `superpipe run --simulate FLAGS`, while it runs; killed at the end of the block."""

    def __init__(self, *flags: str, passes: int = PASSES, moves: bool = True, **environment: str) -> None:
        self.moves = moves  # else `superpipe budget` asks for no figures
        self.folder = tempfile.TemporaryDirectory(prefix="superpipe-live-")
        path = Path(self.folder.name)
        self.out, self.stats, self.driver = path / "out", path / "stats.json", path / "simgpu.json"
        self.out.mkdir()
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(("SUPERPIPE_", "SIMGPU_", "LD_", "CUDA_"))}
        variables = {**inherited, **FAST, "SIMGPU_STATS": str(self.driver), "SUPERPIPE_STATS": str(self.stats), **environment}
        command = [str(word).replace("{out}", str(self.out)) for word in self.command(passes)]
        self.process = subprocess.Popen([str(SUPERPIPE), "run", "--simulate", *flags, "--", *command], env=variables,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    @staticmethod
    def command(passes: int = PASSES) -> list:
        return layers(N, LAYER, "--compute-us", LAYER_US, passes=passes)

    def __enter__(self) -> "Program":
        deadline = time.monotonic() + PATIENCE
        while not segment(self.pid).exists() or (self.moves and self.live() < N * LAYER * MIB):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the program did not come so far: {self.process.communicate()}")
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def live(self) -> int:
        """What all its buffers take together, by its own figures; asks for them first."""
        budget(self.pid)
        try:
            content = segment(self.pid).read_bytes()
        except FileNotFoundError:
            return 0
        return int.from_bytes(content[80:88], "little")  # profiler/live_segment.cc

    def pages(self) -> tuple[int, int]:
        """The bytes that its pages take now, and may take."""
        said = budget(self.pid).stdout
        found = re.search(r"pages ([\d.]+) (\w+) of ([\d.]+) (\w+)", said)
        if found is None:
            raise AssertionError(f"no figures: {said}")
        taken, taken_unit, limit, limit_unit = found.groups()
        return int(float(taken) * SIZES[taken_unit]), int(float(limit) * SIZES[limit_unit])

    def finish(self) -> Outcome:
        stdout, stderr = self.process.communicate(timeout=PATIENCE)
        read = lambda path: json.loads(path.read_text()) if path.is_file() else {}
        return Outcome(self.process.returncode, stdout.replace(str(self.out), "{out}"), stderr,
                       {path.name: path.read_bytes() for path in sorted(self.out.iterdir())}, read(self.driver),
                       read(self.stats))


class LiveBudget(EndToEndCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.reference = run(Program.command(), without_superpipe=True)

    def wait_until(self, condition: object, what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def assert_refused(self, words: tuple, *parts: str) -> None:
        answer = budget(*words)
        self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
        self.assertEqual(answer.stdout, "")
        self.assert_one_line(answer.stderr, *parts)

    def test_shrinks_and_grows_while_it_runs(self) -> None:
        with Program("--gpu-mem", "40M") as program:
            before = budget(program.pid)
            self.assertIn("budget 40 MiB", before.stdout)
            shrunk = budget(program.pid, "12M")
            self.assertEqual(shrunk.returncode, 0, shrunk.stderr)
            self.assertIn("budget 40 MiB -> 12 MiB", shrunk.stdout)
            pages, limit = program.pages()
            self.assertLessEqual(pages, limit)
            self.assertLess(limit, 12 * MIB)
            grown = budget(program.pid, "30M")
            self.assertEqual(grown.returncode, 0, grown.stderr)
            self.wait_until(lambda: program.process.poll() is not None or program.pages()[0] > 12 * MIB,
                            "the new room is not used")
            outcome = program.finish()
        self.assert_same_output(outcome, self.reference)
        self.assertEqual(outcome.stats["budget_changes"], 2)
        self.assertEqual(outcome.stats["budget_bytes"] + outcome.stats["context_bytes"], 30 * MIB)
        self.assertGreater(outcome.stats["evictions"], 0)
        self.assertIn("the budget changed 2 times, at last to 30 MiB", outcome.stderr)

    def test_a_program_that_fits_and_has_no_budget_gets_one(self) -> None:
        with Program() as program:
            answer = budget(program.pid, "12M")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            outcome = program.finish()
        self.assert_same_output(outcome, self.reference)
        self.assertGreater(outcome.stats["h2d_bytes"], 0)
        self.assertEqual(outcome.stats["budget_bytes"] + outcome.stats["context_bytes"], 12 * MIB)

    def test_a_share_of_the_device(self) -> None:
        with Program(SIMGPU_MEMORY="48M") as program:
            answer = budget(program.pid, "25%")
            self.assertIn("-> 12 MiB", answer.stdout, answer.stderr)

    def test_host_memory_that_is_short_leaves_the_budget_as_it_was(self) -> None:
        with Program("--host-mem", "4M") as program:
            before = budget(program.pid).stdout
            self.assert_refused((program.pid, "12M"), "too little host memory", "--host-mem")
            self.assertEqual(budget(program.pid).stdout, before)
            outcome = program.finish()
        self.assert_same_output(outcome, self.reference)
        self.assertEqual((outcome.stats["evictions"], outcome.stats["budget_changes"]), (0, 0))

    def test_what_cannot_be_is_refused_with_what_to_do(self) -> None:
        with Program("--gpu-mem", "16M") as program:
            self.assert_refused((program.pid, "1M"), "allow more")
            self.assert_refused((program.pid, "3M"), "allow more")
        with Program("--k", "3", moves=False) as program:
            self.assert_refused((program.pid, "12M"), "--gpu-mem")
            self.assertIn("--k", budget(program.pid).stdout)
        with Program("--policy", "resident", moves=False) as program:
            self.assert_refused((program.pid, "12M"), "moves nothing")

    def test_processes_that_are_not_there_or_not_ours(self) -> None:
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.assert_refused((ended.pid,), "there is no process", "superpipe budget lists")
        self.assert_refused((os.getpid(), "1G"), "superpipe run")
        if os.geteuid() != 0:
            self.assert_refused((1, "1G"), "another user's")

    def test_bad_usage(self) -> None:
        for words in (("x",), ("0",), ("-5x",), ("12", "much"), ("12", "0"), ("12", "1G", "more"), ("12", "1G", "--timeout", "x"),
                      ("12", "1G", "--", "true")):
            answer = budget(*words)
            self.assertEqual(answer.returncode, 2, words)
            self.assert_one_line(answer.stderr, "superpipe")

    def test_another_version_is_not_touched(self) -> None:
        with Program("--gpu-mem", "16M") as program:
            with segment(program.pid).open("r+b") as file:
                file.seek(8)
                file.write((99).to_bytes(4, "little"))
            self.assert_refused((program.pid, "12M"), "another version")
            self.assertIn("another version", budget().stdout)

    def test_a_stopped_process_is_not_waited_for_longer_than_asked(self) -> None:
        with Program("--gpu-mem", "40M") as program:
            os.kill(program.pid, signal.SIGSTOP)
            # A busy machine takes its time to stop all threads, and the one that answers may be the last.
            self.wait_until(lambda: all(state_of(task) == "T" for task in Path(f"/proc/{program.pid}/task").iterdir()), "it does not stop")
            began = time.monotonic()
            self.assert_refused((program.pid, "12M", "--timeout", "0.3"), "did not answer in time", "--timeout")
            self.assertLess(time.monotonic() - began, 10)
            os.kill(program.pid, signal.SIGCONT)
            self.wait_until(lambda: "budget 12 MiB" in budget(program.pid).stdout, "the request was lost")
            self.assert_same_output(program.finish(), self.reference)

    def test_lists_who_runs_and_forgets_who_does_not(self) -> None:
        with Program("--gpu-mem", "16M") as program:
            line = next(line for line in budget().stdout.splitlines() if line.split()[0] == str(program.pid))
            self.assertIn("superpipe-layer", line)
            self.assertIn("auto", line)
            self.assertIn("16 MiB", line)
            program.process.kill()
            program.process.wait()
            # It cannot tidy up itself: whoever looks does, or another program of the user that begins meanwhile.
            self.assertNotIn(str(program.pid), budget().stdout.split())
            self.assertFalse(segment(program.pid).exists())

    def test_nothing_is_left_behind(self) -> None:
        with Program("--gpu-mem", "16M", passes=20) as program:
            self.assert_succeeded(program.finish())
            self.assertFalse(segment(program.pid).exists())


class OtherProcesses(EndToEndCase):
    """Others take device memory and give it back, while a program runs in what was free."""

    def check(self, *flags: str) -> Outcome:
        reference = run(Program.command(400), without_superpipe=True)
        with tempfile.TemporaryDirectory() as folder:
            others = Path(folder) / "others"
            others.write_text("0")
            with Program(*flags, passes=400, SIMGPU_MEMORY="40M", SIMGPU_QUEUE_DEPTH="64",
                         SIMGPU_OTHER_FILE=str(others)) as program:
                taken, _ = program.pages()
                self.assertGreaterEqual(taken, 16 * MIB, "not all of the model was there")
                others.write_text("26M")
                deadline = time.monotonic() + PATIENCE
                # Of 40 MiB the context takes 2, others 26, and 2 stay free.
                while program.pages()[0] > 12 * MIB:
                    self.assertLess(time.monotonic(), deadline, f"{program.pages()} did not give way")
                    time.sleep(0.02)
                others.write_text("0")
                while program.pages()[0] < taken:
                    self.assertLess(time.monotonic(), deadline, f"{program.pages()} did not come back")
                    time.sleep(0.02)
                outcome = program.finish()
        self.assert_same_output(outcome, reference)
        self.assertGreater(outcome.stats["write_backs"], 0)
        self.assertEqual(outcome.stats["budget_changes"], 0)
        return outcome

    def test_what_was_free_gives_way_and_comes_back(self) -> None:
        self.check()

    def test_a_budget_gives_way_and_comes_back(self) -> None:
        self.check("--gpu-mem", "38M")


if __name__ == "__main__":
    unittest.main()
