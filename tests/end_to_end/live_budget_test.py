"""A program gets another budget while it runs, and gives way to other processes; its results stay the same."""

import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from simulated_run import (FAST, LIMIT, MIB, SUPERPIPE, EndToEndCase, Outcome, clean_environment,
                           layers, run)
from hermetic import SHARED_FOLDER, segment_of, wait_until

N, LAYER = 8, 2
LAYER_US = 2000
SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def state_of(task: Path) -> str:
    """What the kernel says that a thread does, as one letter: T, it is stopped. Of one that has ended too."""
    try:
        return (task / "stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return "T"


def stop(pid: int) -> None:
    """Returns once all threads of a process are stopped, of which the one that answers may be the
    last."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(state_of(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir()),
               "it does not stop")


def budget(*words: object, folder: Path = SHARED_FOLDER) -> subprocess.CompletedProcess:
    """`superpipe budget WORDS`; of a process, without a limit of its own to what is waited for."""
    patient = ("--timeout", LIMIT) if words and "--timeout" not in words else ()
    return subprocess.run([str(SUPERPIPE), "budget", *map(str, (*words, *patient))],
                          capture_output=True, text=True, timeout=LIMIT,
                          env={**os.environ, "SUPERPIPE_SHARED_FOLDER": str(folder)})


def figures_of(pid: int) -> dict | None:
    """What `superpipe top` shows of a process; None: nothing."""
    said = subprocess.run([str(SUPERPIPE), "top", "--once", "--json", "--interval", "0.1"],
                          capture_output=True, text=True,
                          timeout=LIMIT)
    return next((process for process in json.loads(said.stdout)["processes"]
                 if process["pid"] == pid), None)


class Program:
    """superpipe-layers under `superpipe run --simulate FLAGS`, pass after pass until finish(), or
    killed at the end of the block."""

    def __init__(self, *flags: str, moves: bool = True, **environment: str) -> None:
        self.shared = Path(environment.get("SUPERPIPE_SHARED_FOLDER", SHARED_FOLDER))
        self.moves = moves  # else `superpipe budget` asks for no figures
        self.folder = tempfile.TemporaryDirectory(prefix="superpipe-live-")
        path = Path(self.folder.name)
        self.out, self.end = path / "out", path / "end"
        self.stats, self.driver = path / "stats.json", path / "simgpu.json"
        self.out.mkdir()
        # What is submitted when it shall end is little.
        variables = {**clean_environment("LD_", "CUDA_"), **FAST, "SIMGPU_QUEUE_DEPTH": "64",
                     "SIMGPU_STATS": str(self.driver),
                     "SUPERPIPE_STATS": str(self.stats), **environment}
        command = [str(word).replace("{out}", str(self.out))
                   for word in layers(N, LAYER, "--compute-us", LAYER_US, "--until", self.end)]
        self.process = subprocess.Popen([str(SUPERPIPE), "run", "--simulate", *flags, "--", *command], env=variables,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def __enter__(self) -> "Program":
        try:
            wait_until(self.is_there, "it does not come so far", rest=0.05)
        except AssertionError:
            self.__exit__()
            raise
        return self

    def is_there(self) -> bool:
        """Whether all its buffers are there, and all can ask it for figures."""
        if self.process.poll() is not None:
            raise AssertionError(f"the program did not come so far: {self.process.communicate()}")
        return self.is_shown() and (not self.moves or self.live() >= N * LAYER * MIB)

    def is_shown(self) -> bool:
        """Whether it has made its segment: the first eight bytes are written last."""
        try:
            return any(segment_of(self.pid, self.shared).read_bytes()[:8])
        except FileNotFoundError:
            return False

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def live(self) -> int:
        """What all its buffers take together, by its own figures; asks for them first."""
        budget(self.pid, folder=self.shared)
        try:
            content = segment_of(self.pid, self.shared).read_bytes()
        except FileNotFoundError:
            return 0
        return int.from_bytes(content[80:88], "little")  # profiler/live_layout.h

    def pages(self) -> tuple[int, int]:
        """The bytes that its pages take now, and may take."""
        said = budget(self.pid, folder=self.shared).stdout
        found = re.search(r"pages ([\d.]+) (\w+) of ([\d.]+) (\w+)", said)
        if found is None:
            raise AssertionError(f"no figures: {said}")
        taken, taken_unit, limit, limit_unit = found.groups()
        return int(float(taken) * SIZES[taken_unit]), int(float(limit) * SIZES[limit_unit])

    def finish(self) -> Outcome:
        self.end.touch()
        stdout, stderr = self.process.communicate(timeout=LIMIT)
        read = lambda path: json.loads(path.read_text()) if path.is_file() else {}
        return Outcome(self.process.returncode, stdout.replace(str(self.out), "{out}"), stderr,
                       {path.name: path.read_bytes() for path in sorted(self.out.iterdir())}, read(self.driver),
                       read(self.stats))


class ProgramCase(EndToEndCase):
    def assert_computed_the_same(self, outcome: Outcome) -> None:
        """As many passes without superpipe give the same."""
        self.assert_succeeded(outcome)
        self.assert_same_output(outcome, run(layers(N, LAYER, passes=outcome.passes),
                                             without_superpipe=True))


class LiveBudget(ProgramCase):
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
            wait_until(lambda: program.pages()[0] > 12 * MIB, "the new room is not used")
            outcome = program.finish()
        self.assert_computed_the_same(outcome)
        self.assertEqual(outcome.stats["budget_changes"], 2)
        self.assertEqual(outcome.stats["budget_bytes"] + outcome.stats["context_bytes"], 30 * MIB)
        self.assertGreater(outcome.stats["evictions"], 0)
        self.assertIn("the budget changed 2 times, at last to 30 MiB", outcome.stderr)

    def test_a_program_that_fits_and_has_no_budget_gets_one(self) -> None:
        with Program() as program:
            answer = budget(program.pid, "12M")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            wait_until(lambda: figures_of(program.pid)["counts"]["h2d_bytes"] > 0,
                       "nothing comes back")
            outcome = program.finish()
        self.assert_computed_the_same(outcome)
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
        self.assert_computed_the_same(outcome)
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
            with segment_of(program.pid).open("r+b") as file:
                file.seek(8)
                file.write((99).to_bytes(4, "little"))
            self.assert_refused((program.pid, "12M"), "another version")
            self.assertIn("another version", budget().stdout)

    def test_a_stopped_process_is_not_waited_for_longer_than_asked(self) -> None:
        with Program("--gpu-mem", "40M") as program:
            stop(program.pid)
            patient = subprocess.Popen([str(SUPERPIPE), "budget", str(program.pid), "--timeout",
                                        str(LIMIT)], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            self.addCleanup(patient.kill)
            self.assert_refused((program.pid, "12M", "--timeout", "0.3"), "did not answer in time", "--timeout")
            self.assertIsNone(patient.poll(), "its --timeout is longer")
            os.kill(program.pid, signal.SIGCONT)
            said, errors = patient.communicate(timeout=LIMIT)
            self.assertEqual((patient.returncode, errors), (0, ""), said)
            wait_until(lambda: "budget 12 MiB" in budget(program.pid).stdout,
                       "the request was lost")
            self.assert_computed_the_same(program.finish())

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
            self.assertFalse(segment_of(program.pid).exists())

    def test_nothing_is_left_behind(self) -> None:
        with Program("--gpu-mem", "16M") as program:
            self.assert_succeeded(program.finish())
            self.assertFalse(segment_of(program.pid).exists())


class OtherProcesses(ProgramCase):
    """Others take device memory and give it back, while a program runs in what was free."""

    def check(self, *flags: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            others = Path(folder) / "others"
            others.write_text("0")
            with Program(*flags, SIMGPU_MEMORY="40M", SIMGPU_OTHER_FILE=str(others)) as program:
                taken, _ = program.pages()
                self.assertGreaterEqual(taken, 16 * MIB, "not all of the model was there")
                others.write_text("26M")
                # Of 40 MiB the context takes 2, others 26, and 2 stay free.
                wait_until(lambda: program.pages()[0] <= 12 * MIB,
                           lambda: f"{program.pages()} did not give way", rest=0.05)
                others.write_text("0")
                wait_until(lambda: program.pages()[0] >= taken,
                           lambda: f"{program.pages()} did not come back", rest=0.05)
                outcome = program.finish()
        self.assert_computed_the_same(outcome)
        self.assertGreater(outcome.stats["write_backs"], 0)
        self.assertEqual(outcome.stats["budget_changes"], 0)

    def test_what_was_free_gives_way_and_comes_back(self) -> None:
        self.check()

    def test_a_budget_gives_way_and_comes_back(self) -> None:
        self.check("--gpu-mem", "38M")


if __name__ == "__main__":
    unittest.main()
