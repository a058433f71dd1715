"""The parts of scripts/gpu_check: what counts as a difference, what is recorded, what a bound is."""

import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT  # noqa: E402  (found through the path above)

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", "build/dev")).resolve()
sys.path.insert(0, str(SOURCE / "scripts" / "gpu_check"))
import bounds  # noqa: E402  (found through the path above, as are all below)
import check  # noqa: E402
import driver  # noqa: E402
import machine  # noqa: E402
import process  # noqa: E402
import random_minilm  # noqa: E402
import results  # noqa: E402
import step_conformance  # noqa: E402
import step_doctor  # noqa: E402
import step_tests  # noqa: E402

FAKE_DRIVER = BUILD / "tests" / "libfake_driver.so"
STATS = {"errors": 0, "evictions": 3, "fetches": 3}


def finished(code: int = 0, stdout: str = "a\nb\n", stderr: str = "") -> process.Finished:
    return process.Finished(["program"], code, stdout, stderr, 1.0, False)


class Difference(unittest.TestCase):
    def test_none_where_all_is_the_same(self) -> None:
        self.assertEqual(check.difference(check.Run(finished(), {"f": b"1"}), check.Run(finished(), {"f": b"1"})), "")

    def test_each_kind_is_told(self) -> None:
        reference = check.Run(finished(), {"f": b"1"})
        for run, says in ((check.Run(finished(stdout="a\nc\n"), {"f": b"1"}), "line 2"),
                          (check.Run(finished(stdout="a\n"), {"f": b"1"}), "1 lines"),
                          (check.Run(finished(), {"f": b"2"}), "other bytes"), (check.Run(finished(), {}), "wrote"),
                          (check.Run(finished(-11), {"f": b"1"}), "SIGSEGV")):
            with self.subTest(says):
                self.assertIn(says, check.difference(run, reference))

    def test_a_run_that_shows_nothing_has_a_problem(self) -> None:
        reference = check.Run(finished())
        judge = lambda run, **how: step_tests.judged(run, reference, **how)["problem"]
        self.assertEqual(judge(check.Run(finished(), stats=STATS)), "")
        self.assertIn("statistics", judge(check.Run(finished())))
        self.assertIn("errors", judge(check.Run(finished(), stats={**STATS, "errors": 1})))
        self.assertIn("nothing was moved", judge(check.Run(finished(), stats={**STATS, "evictions": 0})))
        self.assertEqual(judge(check.Run(finished(), stats={**STATS, "evictions": 0}), must_move=False), "")
        self.assertIn("unmapped", judge(check.Run(finished(), stats=STATS, simulated={"unmapped_accesses": 2})))


class Times(unittest.TestCase):
    def test_count_on_hardware_and_where_the_machine_kept_up_with_the_model(self) -> None:
        self.assertTrue(check.Run(finished()).in_time())
        self.assertTrue(check.Run(finished(), simulated={"overrun_share": 0.01}).in_time())
        self.assertFalse(check.Run(finished(), simulated={"overrun_share": 0.011}).in_time())


class Conformance(unittest.TestCase):
    REPORT = """<testsuites><testsuite name="S">
      <testcase name="Good" classname="S" status="run" result="completed"><properties><property name="order" value="3"/>
      </properties></testcase>
      <testcase name="Bad" classname="S" status="run" result="completed"><failure message="want 1&#x0A; got 2"/></testcase>
      <testcase name="No" classname="S" status="run" result="skipped"><skipped message="no batch copies"/></testcase>
      <testcase name="Other" classname="S" status="notrun" result="suppressed"/></testsuite></testsuites>"""

    def parsed(self, text: str) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "report.xml").write_text(text)
            return step_conformance.parse_report(Path(folder) / "report.xml")

    def test_report_is_read(self) -> None:
        self.assertEqual(self.parsed(self.REPORT), {
            "S.Good": {"result": "passed", "why": "", "properties": {"order": "3"}},
            "S.Bad": {"result": "failed", "why": "want 1 got 2", "properties": {}},
            "S.No": {"result": "skipped", "why": "no batch copies", "properties": {}}})
        self.assertEqual(self.parsed("<testsuites>"), {})  # cut off by a crash

    def test_differences_by_result_and_by_property(self) -> None:
        simgpu = self.parsed(self.REPORT)
        self.assertEqual(step_conformance.differences(simgpu, simgpu), [])
        gpu = self.parsed(self.REPORT.replace('value="3"', 'value="4"').replace(
            '<skipped message="no batch copies"/>', "").replace('result="skipped"', 'result="completed"'))
        found = step_conformance.differences(gpu, simgpu)
        self.assertEqual([(each["test"], each["what"], each["driver"], each["simgpu"]) for each in found],
                         [("S.Good", "property order", "4", "3"), ("S.No", "result", "passed", "skipped")])
        self.assertEqual(len(step_conformance.differences({}, simgpu)), 4)

    def test_a_measured_time_is_told_apart_from_behaviour(self) -> None:
        one, other = ({"S.T": {"result": "passed", "properties": {"map_us": value}}} for value in ("3", "4"))
        (found,) = step_conformance.differences(one, other)
        self.assertEqual(found["what"], "figure map_us")


class Doctor(unittest.TestCase):
    def test_only_an_answer_settles_a_question(self) -> None:
        for outcome, settled in (("answered", True), ("not_supported", True), ("failed", False), ("crashed", False),
                                 ("timed_out", False), ("skipped", False), (None, False)):
            self.assertEqual(step_doctor.is_answered({"outcome": outcome}), settled, outcome)


class Bounds(unittest.TestCase):
    def test_all_three(self) -> None:
        # 100 bytes, 40 of them stay, 1 byte a millisecond.
        found = bounds.bounds(30, 100, 40, 1000, 5)
        self.assertEqual(found, {"physical_ms": 60, "achievable_ms": 70, "sliding_window_ms": 100})

    def test_compute_bounds_where_it_is_longer_or_all_fits(self) -> None:
        self.assertEqual(bounds.bounds(80, 100, 40, 1000, 5)["physical_ms"], 80)
        self.assertEqual(set(bounds.bounds(7, 100, 100, 1000, 5).values()), {7})


class Driver(unittest.TestCase):
    """One clear line for each driver that is no good."""

    def problem(self, path: str, fake: str = "", named_by: str = "SUPERPIPE_DRIVER") -> str:
        found = driver.probe(path, named_by, {**os.environ, "FAKE_DRIVER": fake}).problem
        self.assertNotIn("\n", found)
        return found

    def test_good_one(self) -> None:
        self.assertEqual(self.problem(str(FAKE_DRIVER)), "")

    def test_bad_ones(self) -> None:
        for fake, says in (("fail", "no GPU: the CUDA driver does not start (CUDA_ERROR_NO_DEVICE)"),
                           ("none", "no GPU: the CUDA driver has no device"), ("old", "too old: it supports CUDA 12.3"),
                           ("old-gpu", "the GPU is too old"), ("no-vmm", "no virtual memory management"),
                           ("crash", "crashes when it starts (ended by SIGABRT")):
            with self.subTest(fake):
                self.assertIn(says, self.problem(str(FAKE_DRIVER), fake))

    def test_one_that_hangs(self) -> None:
        with mock.patch.object(driver, "LIMIT_S", 1):
            self.assertIn("hangs", self.problem(str(FAKE_DRIVER), "hang"))

    def test_no_driver(self) -> None:
        self.assertIn("SUPERPIPE_DRIVER=/no/such/libcuda.so.1 does not exist", self.problem("/no/such/libcuda.so.1"))
        self.assertIn("not a CUDA driver", self.problem("libm.so.6"))
        self.assertIn("no CUDA driver (libcuda.so.1) on this machine", self.problem("libno-such.so.1", named_by=""))


class Processes(unittest.TestCase):
    def test_a_child_past_its_limit_goes_with_its_children(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "pid"
            # It ends with its limit, and by then the child must have begun, which on a busy machine
            # may take a while.
            for limit in (1, 10, 100):
                ended = process.run(["sh", "-c",
                                     f"setsid sh -c 'echo $$ > {file}; exec tail -f /dev/null' & wait"],
                                    dict(os.environ), limit)
                self.assertTrue(ended.timed_out)
                if file.exists() and file.read_text().endswith("\n"):
                    break
            self.assertIn("did not end", ended.problem)
            state = Path("/proc", file.read_text().strip(), "stat")
            self.assertTrue(not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z")

    def test_endings_are_told(self) -> None:
        environment = dict(os.environ)
        self.assertEqual(process.run(["true"], environment, LIMIT).problem, "")
        self.assertEqual(process.run(["sh", "-c", "echo no >&2; exit 3"], environment,
                                     LIMIT).problem, "exit code 3: no")
        self.assertEqual(process.run(["sh", "-c", "kill -SEGV $$"], environment, LIMIT).problem,
                         "ended by SIGSEGV")
        self.assertIn("cannot start", process.run(["/no/such"], environment, LIMIT).problem)


class Machine(unittest.TestCase):
    def test_variables_outside_the_list_are_not_recorded(self) -> None:
        with mock.patch.dict(os.environ, {"MY_TOKEN": "very-secret", "CUDA_VISIBLE_DEVICES": "0"}):
            facts = machine.environment()
        self.assertNotIn("very-secret", str(facts))
        self.assertEqual(facts["variables"]["CUDA_VISIBLE_DEVICES"], "0")

    def test_what_tells_machines_apart_is_left_out(self) -> None:
        text = "Product Name : H100\n    Serial Number : 123\n    GPU UUID : GPU-9\n    GPU Fabric GUID : 0x77\n    Clocks\n    Processes\n  Name : python x"
        kept = machine.without_identity(text)
        self.assertIn("H100", kept)
        self.assertIn("Clocks", kept)
        for secret in ("123", "GPU-9", "0x77", "python x"):
            self.assertNotIn(secret, kept)


class Results(unittest.TestCase):
    def test_logs_of_several_attempts_lie_in_one_archive(self) -> None:
        import tarfile

        with tempfile.TemporaryDirectory() as name:
            folder = results.Folder(Path(name))
            for attempt in (1, 2):
                folder.log_file("tests", attempt).write_text(f"attempt {attempt}")
                folder.pack_logs()
            with tarfile.open(Path(name) / "logs.tar.gz") as archive:
                self.assertEqual(archive.getnames(), ["logs/tests-1.log", "logs/tests-2.log"])
            self.assertEqual([file.name for file in Path(name).iterdir()], ["logs.tar.gz"])

    def test_what_a_killed_writer_left_is_removed(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / ".tests.json.7.part").write_text("{")
            results.Folder(Path(name)).prepare()
            self.assertEqual(list(Path(name).iterdir()), [])

    def test_damaged_file_reads_as_none(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "x.json"
            file.write_text('{"cut": ')
            self.assertEqual(results.read_json(file), {})


class RandomMinilm(unittest.TestCase):
    def test_same_seed_same_files(self) -> None:
        with tempfile.TemporaryDirectory() as name, mock.patch.multiple(
                random_minilm, LAYERS=1, VOCABULARY=200, POSITIONS=4, HIDDEN=8, INNER=16):
            for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
                random_minilm.write_model(Path(name) / folder, seed)
            a, b, c = ((Path(name) / folder / "model.safetensors").read_bytes() for folder in "abc")
            self.assertEqual(a, b)
            self.assertNotEqual(a, c)
            words = (Path(name) / "a" / "vocab.txt").read_text().splitlines()
            self.assertEqual((len(words), len(set(words))), (200, 200))


if __name__ == "__main__":
    unittest.main()
