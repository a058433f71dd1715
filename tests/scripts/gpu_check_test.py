"""scripts/gpu_check.sh as people meet it: bad input, failing steps, limits, a kill half-way."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT, clean_environment, wait_until  # noqa: E402  (found through the path above)

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", "build/dev")).resolve()
CHECK = SOURCE / "scripts" / "gpu_check.sh"
FAKE_DRIVER = BUILD / "tests" / "libfake_driver.so"
STEPS = ["doctor", "conformance", "tests", "examples", "torch", "peers", "launch"]
# A Python without any package, wherever the tests themselves run.
ISOLATED = {"PYTHONNOUSERSITE": "1"}


class GpuCheck(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="gpu-check-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.output = self.folder / "results"

    def environment(self, **variables: str) -> dict[str, str]:
        return {**clean_environment("LD_"), **ISOLATED, "SUPERPIPE_BUILD_DIR": str(BUILD),
                "SUPERPIPE_CHECK_PYTHON": sys.executable, **variables}

    def check(self, *words: object, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run([str(CHECK), *map(str, words), *([] if "--output" in words else ["--output", str(self.output)])],
                              env=self.environment(**variables), capture_output=True, text=True,
                              timeout=LIMIT)

    def summary(self) -> dict:
        return json.loads((self.output / "summary.json").read_text())

    def step(self, name: str) -> dict:
        return json.loads((self.output / f"{name}.json").read_text())

    def assert_refused(self, finished: subprocess.CompletedProcess, code: int, *says: str) -> None:
        self.assertEqual(finished.returncode, code, finished.stdout + finished.stderr)
        self.assertEqual(finished.stderr.count("\n"), 1, finished.stderr)
        for part in says:
            self.assertIn(part, finished.stderr)


class BadInput(GpuCheck):
    def test_unknown_step(self) -> None:
        self.assert_refused(self.check("--simulate", "--step", "polish"), 120, "no step 'polish'", *STEPS)
        self.assertFalse(self.output.exists())

    def test_unknown_option_and_bad_values(self) -> None:
        for words in (["--bogus"], ["--host-mem", "lots"], ["--step-limit", "100000"], ["--model", "/no/such"]):
            with self.subTest(words):
                self.assert_refused(self.check("--simulate", *words), 120, words[0] if words[0] != "--model" else "/no/such")

    def test_folder_that_cannot_be_written(self) -> None:
        (self.folder / "file").write_text("")
        self.assert_refused(self.check("--simulate", "--output", self.folder / "file" / "results"), 121, "cannot write results")

    def test_every_step_is_skipped_with_the_driver_s_problem(self) -> None:
        for fake, says in (("fail", "no GPU"), ("none", "no GPU"), ("old", "too old"), ("gone", "no CUDA driver")):
            with self.subTest(fake):
                self.output = self.folder / fake
                named = "/no/such/libcuda.so.1" if fake == "gone" else str(FAKE_DRIVER)
                finished = self.check(SUPERPIPE_DRIVER=named, FAKE_DRIVER=fake)
                # Never green: nothing failed, but nothing was checked either.
                self.assertEqual(finished.returncode, 123, finished.stdout + finished.stderr)
                steps = self.summary()["steps"]
                self.assertEqual(list(steps), STEPS)
                for name in STEPS:
                    self.assertEqual(steps[name]["status"], "skipped")
                    self.assertIn(says, steps[name]["reason"])
                    self.assertEqual(self.step(name)["status"], "skipped")
                    self.assertEqual(finished.stdout.count(f"\n{name}: skipped: "), 1)
                self.assertIn("0 passed, 0 failed, 7 skipped", finished.stdout)

    def test_too_little_host_memory(self) -> None:
        finished = self.check("--simulate", "--short", "--host-mem", "64M", "--step", "tests", "--step", "examples")
        self.assertEqual(finished.returncode, 123, finished.stdout)
        for name in ("tests", "examples"):
            self.assertEqual(self.step(name)["status"], "skipped")
            self.assertIn("too little host memory", self.step(name)["reason"])

    def test_python_without_torch(self) -> None:
        if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0:
            self.skipTest("this Python has torch")
        bare = self.folder / "bin"
        bare.mkdir()
        (bare / "python3").symlink_to(sys.executable)
        finished = self.check("--simulate", "--short", "--step", "torch", PATH=f"{bare}:/usr/bin:/bin")
        self.assertEqual(finished.returncode, 123, finished.stdout)
        self.assertIn("Python without torch", self.step("torch")["reason"])
        self.assertIn("No module named 'torch'", self.step("torch")["reason"])

    def test_python_too_old_or_missing(self) -> None:
        self.assert_refused(self.check("--simulate", SUPERPIPE_CHECK_PYTHON="/no/such/python"), 122, "needs Python 3.9")


class Steps(GpuCheck):
    def tree_without(self, *parts: str, **scripts: str) -> Path:
        """A build tree of links to ours, without some parts; `scripts` replaces programs by shell scripts."""
        root = self.folder / "tree"
        for folder in ("bin", "lib", "tests/gpu", "tests/interposer", "bench", "cmake"):
            (root / folder).mkdir(parents=True)
            for entry in (BUILD / folder).iterdir() if (BUILD / folder).is_dir() else ():
                if f"{folder}/{entry.name}" not in parts:
                    (root / folder / entry.name).symlink_to(entry)
        for name, text in scripts.items():
            (file,) = (root / folder / name for folder in ("bin", "tests/gpu") if (root / folder / name).exists())
            file.unlink()
            file.write_text(f"#!/bin/sh\n{text}\n")
            file.chmod(0o755)
        return root

    def test_a_failing_step_does_not_stop_the_others(self) -> None:
        root = self.tree_without("bin/conformance")
        finished = self.check("--simulate", "--short", "--root", root, "--step", "conformance", "--step", "launch",
                              "--step", "doctor")
        self.assertEqual(finished.returncode, 1, finished.stdout + finished.stderr)
        steps = self.summary()["steps"]
        self.assertEqual({name: step["status"] for name, step in steps.items()},
                         {"doctor": "passed", "conformance": "failed", "launch": "passed"})
        self.assertIn("conformance is not in", steps["conformance"]["reason"])
        self.assertEqual(self.summary()["failed"], 1)

    def test_a_program_that_gives_other_bytes_under_superpipe_fails_the_step(self) -> None:
        root = self.tree_without(random_device_program='echo "program 1 ${SUPERPIPE_OFF:-managed}"')
        finished = self.check("--simulate", "--short", "--root", root, "--step", "tests")
        self.assertEqual(finished.returncode, 1, finished.stdout + finished.stderr)
        cells = self.step("tests")["cells"]
        for name in ("random/1", "exit/pending"):
            self.assertIn("'program 1 managed' under superpipe, 'program 1 1' without", cells[name]["problem"])
        self.assertEqual(cells["end-to-end/forward/k1"]["problem"], "")

    def test_says_that_it_is_simulated_also_where_a_variable_names_simgpu(self) -> None:
        finished = self.check("--step", "doctor", "--short",
                              SUPERPIPE_DRIVER=str(BUILD / "lib" / "superpipe" / "simgpu" / "libcuda.so.1"))
        self.assertIn("SIMULATED", finished.stdout.splitlines()[0])
        self.assertTrue(self.summary()["simulated"])
        self.assertTrue(self.step("doctor")["simulated"])

    def test_nothing_of_the_environment_but_what_is_listed_gets_into_the_results(self) -> None:
        self.check("--simulate", "--short", "--step", "doctor", MY_TOKEN="hunter2-secret")
        for file in self.output.iterdir():
            self.assertNotIn(b"hunter2-secret", file.read_bytes(), file)

    def test_a_step_past_its_limit_ends_there_and_goes_on_when_resumed(self) -> None:
        words = ("--simulate", "--short", "--step", "conformance", "--root")
        program = BUILD / "bin" / "conformance"
        listed = subprocess.run([program, "--gtest_list_tests"], env=self.environment(),
                                capture_output=True, text=True, timeout=LIMIT)
        first = next(line for line in listed.stdout.splitlines() if line.endswith("."))
        # Hangs in each suite but the first.
        hangs = self.tree_without(conformance=f"""case "$*" in
          *--gtest_list_tests*|*--gtest_filter={first}*) exec {shlex.quote(str(program))} "$@" ;;
        esac
        exec tail -f /dev/null""")
        finished = self.check(*words, hangs, "--step-limit", 14)
        self.assertEqual(finished.returncode, 1, finished.stdout + finished.stderr)
        self.assertEqual(self.step("conformance")["status"], "timed_out", self.step("conformance"))
        kept = self.step("conformance")["cells"]
        self.assertEqual(list(kept), [f"driver/{first.removesuffix('.')}"])
        finished = self.check(*words, BUILD, "--resume")
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        cells = self.step("conformance")["cells"]
        self.assertGreater(len(cells), len(kept))
        self.assertEqual({name: cells[name] for name in kept}, kept)


class Resume(GpuCheck):
    WORDS = ("--simulate", "--short", "--step", "conformance", "--step", "launch")

    def started_by(self, check: subprocess.Popen) -> list[int]:
        """Processes that work for this check, by what they were started with."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != check.pid:
                try:
                    words = (entry / "cmdline").read_bytes()
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                except OSError:
                    continue
                if str(self.output).encode() in words and state != "Z":
                    found.append(int(entry.name))
        return found

    def interrupted(self, number: signal.Signals) -> tuple[int, dict]:
        """A check that was sent `number` in the midst of its first step: its exit code, and the cells it had by then."""
        check = subprocess.Popen([str(CHECK), *self.WORDS, "--output", str(self.output)], env=self.environment(),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(check.kill)

        def is_in_the_midst() -> bool:
            try:
                return check.poll() is not None or len(self.step("conformance")["cells"]) >= 2
            except OSError:
                return False

        wait_until(is_in_the_midst, "its first step does not come so far")
        self.assertIsNone(check.poll(), "ended before it could be killed")
        check.send_signal(number)
        code = check.wait(LIMIT)
        # Its children die with it, at once as the kernel counts.
        wait_until(lambda: not self.started_by(check), "its children are left")
        return code, self.step("conformance")["cells"]

    def assert_resumes(self, cells: dict) -> None:
        finished = self.check(*self.WORDS, "--resume")
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        now = self.step("conformance")["cells"]
        self.assertEqual({name: now[name] for name in cells}, cells)
        self.assertGreater(len(now), len(cells))
        self.assertEqual(self.summary()["steps"]["launch"]["status"], "passed")
        again = self.check(*self.WORDS, "--resume")
        self.assertEqual(again.returncode, 0)
        self.assertEqual(again.stdout.count("already done: passed"), 2)
        self.assertLessEqual(len(list(self.output.iterdir())), 8)

    def test_killed_half_way(self) -> None:
        code, cells = self.interrupted(signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        self.assertEqual(self.summary()["steps"]["conformance"]["status"], "running")
        self.assert_resumes(cells)

    def test_interrupted_half_way(self) -> None:
        code, cells = self.interrupted(signal.SIGTERM)
        self.assertEqual(code, 128 + signal.SIGTERM)
        self.assertEqual(self.summary()["steps"]["conformance"]["status"], "interrupted")
        self.assertNotIn("launch", self.summary()["steps"])
        # What came back from another machine is in one folder, without loose files.
        self.assertEqual(sorted(file.name for file in self.output.iterdir()), ["conformance.json", "logs.tar.gz", "summary.json"])
        self.assertGreater(len(cells), 0)

    def test_results_of_another_check_are_not_mixed(self) -> None:
        self.check("--simulate", "--short", "--step", "doctor")
        self.assert_refused(self.check("--simulate", "--short", "--step", "doctor"), 121, "has results already")
        self.assert_refused(self.check("--simulate", "--step", "doctor", "--resume"), 121, "another check")
        self.assert_refused(self.check("--short", "--step", "doctor", "--resume", SUPERPIPE_DRIVER=str(FAKE_DRIVER)), 121,
                            "another check")


if __name__ == "__main__":
    unittest.main()
