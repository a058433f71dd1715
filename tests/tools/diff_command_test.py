"""`superpipe diff`: its table, its JSON, its exit code as a gate, and one clear line for each bad input."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from command_case import BUILD, LIMIT, CommandCase, damaged_traces

SUCCESS, WORSE, BAD_USAGE = 0, 1, 2
SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", ".")).resolve()
STATISTICS = {"version": "0.1.0", "policy": "auto", "budget_bytes": 8 << 20, "launches": 240, "h2d_bytes": 1000, "d2h_bytes": 0,
              "fetches": 10, "demand_fetches": 4, "evictions": 10, "write_backs": 0, "peak_device_bytes": 8 << 20, "stall_ms": 2.5,
              "pass_ms": 10.0, "pinned_host_bytes": 1 << 20, "errors": 0}


class DiffCase(CommandCase):
    def setUp(self) -> None:
        super().setUp()
        self.trace = self.root / "run.sptrace"
        self.write_trace(self.trace, "12")

    def write_trace(self, path: Path, *words: str) -> None:
        subprocess.run([BUILD / "tests" / "write_trace", path, *words], check=True, timeout=LIMIT)

    def write_statistics(self, name: str, **changes: object) -> Path:
        path = self.root / name
        path.write_text(json.dumps({**STATISTICS, **changes}, indent=2) + "\n")
        return path

    def diff(self, code: int, *words: object) -> str:
        finished = self.run_superpipe("diff", *(str(word) for word in words))
        self.assertEqual((finished.returncode, finished.stderr), (code, ""), finished.stdout)
        return finished.stdout

    def diff_json(self, code: int, *words: object) -> dict:
        said = json.loads(self.diff(code, *words, "--json"))
        said["quantities"] = {one["name"]: one for one in said["quantities"]}
        return said


class Traces(DiffCase):
    def test_a_trace_is_the_same_as_itself(self) -> None:
        said = self.diff_json(SUCCESS, self.trace, self.trace, "--fail-above", "0,stall_ms=0,h2d_bytes=0,peak_device_bytes=0")
        self.assertEqual({one["outcome"] for one in said["quantities"].values()}, {"same"})
        self.assertEqual({one["change"] for one in said["quantities"].values()}, {0})
        self.assertEqual(said["gate"], {"passed": True, "exceeded": [], "unknown": [], "reasons": {},
                                        "limits": {"pass_ms": 0, "stall_ms": 0, "h2d_bytes": 0, "peak_device_bytes": 0}})
        self.assertEqual((said["notes"], said["parts_of"]), ([], "pass"))
        self.assertIn("A pass takes as long in B as in A.", self.diff(SUCCESS, self.trace, self.trace))

    def test_figures_are_those_that_were_written(self) -> None:
        said = self.diff_json(SUCCESS, self.trace, self.trace)
        self.assertEqual((said["a"]["passes"]["first"], said["a"]["passes"]["launches"]), (3, 8))
        values = {name: one["a"]["value"] for name, one in said["quantities"].items()}
        self.assertEqual((values["stall_ms"], values["h2d_bytes"], values["d2h_bytes"]), (1, 8 * 15_000_000, 4 << 20))
        self.assertEqual((values["fetches"], values["demand_fetches"], values["evictions"], values["write_backs"]), (8, 4, 9, 1))
        self.assertEqual((values["peak_device_bytes"], values["pinned_host_bytes"]), (39 << 20, 120 << 20))
        self.assertEqual((values["launches"], values["budget_bytes"], values["dropped_events"]), (8, 80 << 20, 0))
        (layer,) = [group["a"] for group in said["groups"] if group["a"]["stall_ms"]]
        self.assertEqual((layer["name"], layer["stall_ms"], layer["fetched_bytes"]), ("layer 2", 1, 30_000_000))
        (kernel,) = [kernel for kernel in said["kernels"] if kernel["a"]["stall_ms"]]
        self.assertEqual((kernel["name"], kernel["a"]["launches"]), ("gemm(float const*, float const*, float*)", 4))

    def test_runs_of_different_lengths_have_the_same_passes(self) -> None:
        longer = self.root / "longer.sptrace"
        self.write_trace(longer, "30")
        said = self.diff_json(SUCCESS, self.trace, longer, "--fail-above", "1%,h2d_bytes=0,stall_ms=0")
        self.assertEqual(said["quantities"]["h2d_bytes"]["outcome"], "same")

    def test_process_that_died_is_compared_up_to_there(self) -> None:
        died = self.root / "died.sptrace"
        self.write_trace(died, "12", "died")
        self.assertIn("Note: B ends early, because its process died", self.diff(SUCCESS, self.trace, died))
        self.assertFalse(self.diff_json(SUCCESS, self.trace, died)["b"]["complete"])
        finished = self.run_superpipe("diff", str(self.trace), str(died), "--fail-above", "h2d_bytes=5%")
        self.assertEqual(finished.returncode, BAD_USAGE)
        self.assertIn("UNKNOWN h2d_bytes: ", finished.stdout)
        self.assertIn("B ends early", finished.stderr)

    def test_traces_that_are_kept_in_the_tree(self) -> None:
        for path in sorted((SOURCE / "tests" / "profiler" / "traces").glob("*.sptrace")):
            with self.subTest(path=path.name):
                said = self.diff_json(SUCCESS, path, path)
                self.assertEqual({one["outcome"] for one in said["quantities"].values()}, {"same"})

    def test_output_does_not_depend_on_the_terminal(self) -> None:
        text = self.diff(SUCCESS, self.trace, self.trace)
        self.assertTrue(text.isascii())
        self.assertNotIn("\x1b", text)
        self.assertLess(max(len(line) for line in text.splitlines() if not line.startswith(("A: ", "B: ", "Note"))), 140)


class Statistics(DiffCase):
    def test_gate(self) -> None:
        before = self.write_statistics("before.json")
        slower = self.write_statistics("slower.json", pass_ms=10.4, h2d_bytes=1000, peak_device_bytes=4 << 20)
        self.assertIn("passed pass_ms: +4.0 %; at most +5.0 % is allowed", self.diff(SUCCESS, before, slower, "--fail-above", "5%"))
        self.assertIn("FAILED pass_ms: +4.0 %; at most +3.0 % is allowed", self.diff(WORSE, before, slower, "--fail-above", "3"))
        self.diff(SUCCESS, before, slower, "--fail-above", "h2d_bytes=0,peak_device_bytes=0")
        self.diff(WORSE, before, slower, "--fail-above", "h2d_bytes=0,pass_ms=1")
        self.diff(SUCCESS, slower, before, "--fail-above", "0")
        self.diff(SUCCESS, before, slower)  # nothing was asked for

    def test_from_nothing_to_something_exceeds_any_limit(self) -> None:
        before, after = self.write_statistics("before.json"), self.write_statistics("after.json", errors=1)
        said = self.diff_json(WORSE, before, after, "--fail-above", "errors=1000%")
        self.assertEqual((said["gate"]["exceeded"], said["quantities"]["errors"]["change"]), (["errors"], None))

    def test_trace_against_statistics(self) -> None:
        after = self.write_statistics("after.json", launches=96, h2d_bytes=12 * 8 * 15_000_000)
        said = self.diff_json(SUCCESS, self.trace, after, "--fail-above", "h2d_bytes=0.1%")
        self.assertEqual(said["quantities"]["h2d_bytes"]["of"], "run")
        self.assertEqual(said["quantities"]["allocations"]["outcome"], "missing")
        self.assertEqual((said["kernels"], said["groups"]), ([], []))
        self.assertIn("B is statistics", said["notes"][0])

    def test_what_is_not_told_is_not_judged(self) -> None:
        before, after = self.write_statistics("before.json"), self.write_statistics("after.json", pass_ms=0)
        finished = self.run_superpipe("diff", str(before), str(after), "--fail-above", "5")
        self.assertEqual(finished.returncode, BAD_USAGE)
        self.assertEqual(finished.stderr, "superpipe diff: --fail-above cannot be judged: pass_ms: one of the runs does not tell it\n")
        self.assertIn("UNKNOWN pass_ms", finished.stdout)


class BadInput(DiffCase):
    def refused(self, path: Path, *says: str) -> None:
        for words in ((self.trace, path), (path, self.trace)):
            with self.subTest(words=words, says=says):
                finished = self.run_superpipe("diff", *(str(word) for word in words))
                self.assert_one_line(finished, BAD_USAGE, "superpipe diff: ", path.name, *says)

    def test_files_that_are_nothing_to_compare(self) -> None:
        good = self.trace.read_bytes()
        bad = self.root / "bad.sptrace"
        self.refused(self.root / "nowhere", "No such file or directory")
        self.refused(self.root, "no regular file")
        for content, says in ((b"", "is empty"), (b"time_ms,event\n" * 20, "neither a trace of superpipe nor statistics"),
                              (b"\x7fELF" + bytes(500), "neither a trace"), (good[:5], "neither a trace"), (good[:10], "cut off"), (good[:30], "cut off"),
                              (b'{"version": "0.1', "cut off or damaged"), (b"{}", "no statistics of a run"),
                              (b'{"traceEvents": []}', "no statistics of a run"), (b'{"a":' * 100_000, "cut off or damaged"),
                              (json.dumps({**STATISTICS, "h2d_bytes": -1}).encode(), "its h2d_bytes is -1"),
                              (b'{"version": "0.1.0", "launches": 1}' + b" " * (5 << 20), "too large")):
            bad.write_bytes(content)
            self.refused(bad, says)

    def test_pipes_do_not_hold_it_up(self) -> None:
        pipe = self.root / "pipe"
        os.mkfifo(pipe)
        self.refused(pipe, "no regular file")

    def test_damage_is_found_wherever_it_is(self) -> None:
        bad = self.root / "bad.sptrace"
        for content in damaged_traces(self.trace.read_bytes()):
            bad.write_bytes(content)
            self.refused(bad)

    def test_a_trace_may_be_cut_off_anywhere(self) -> None:
        good = self.trace.read_bytes()
        bad = self.root / "cut.sptrace"
        for at in range(0, len(good), max(1, len(good) // 17)):
            bad.write_bytes(good[:at])
            with self.subTest(at=at):
                finished = self.run_superpipe("diff", str(self.trace), str(bad))
                self.assertIn(finished.returncode, (SUCCESS, BAD_USAGE))
                self.assertLessEqual(len(finished.stderr.splitlines()), 1)

    def test_usage(self) -> None:
        trace = str(self.trace)
        for words, says in (
                ([], ["compares two runs, and 0 are named", "superpipe diff BEFORE AFTER"]),
                ([trace], ["1 are named"]),
                ([trace] * 3, ["3 are named"]),
                ([trace, trace, "--fail-above", ""], ["--fail-above is given without a limit"]),
                ([trace, trace, "--fail-above="], ["--fail-above"]),
                ([trace, trace, "--fail-above", "much"], ["--fail-above much", "no percentage", "h2d_bytes=2.5%"]),
                ([trace, trace, "--fail-above", "speed=5"], ["'speed' is no quantity", "pass_ms, stall_ms"]),
                ([trace, trace, "--fail-above", "5,6"], ["pass_ms is given twice"]),
                ([trace, trace, "--color"], ["there is no flag '--color'"]),
                ([trace, trace, "--", "true"], ["it takes no command"])):
            with self.subTest(words=words):
                self.assert_one_line(self.run_superpipe("diff", *words), BAD_USAGE, "superpipe diff: ", *says)

    def test_output_that_cannot_be_written(self) -> None:
        with open("/dev/full", "w", encoding="utf-8") as full:
            finished = subprocess.run([self.prefix / "bin" / "superpipe", "diff", self.trace, self.trace], stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=LIMIT)
        self.assertEqual((finished.returncode, finished.stderr), (BAD_USAGE, "superpipe diff: cannot write to standard output\n"))

    def test_help_has_examples_and_all_names(self) -> None:
        finished = self.run_superpipe("diff", "--help")
        self.assertEqual((finished.returncode, finished.stderr), (SUCCESS, ""))
        for part in ("Examples:", "--fail-above 5%", "--json", "Exit code"):
            self.assertIn(part, finished.stdout)
        refusal = self.run_superpipe("diff", "a", "b", "--fail-above", "speed=5").stderr
        names = refusal.split("it is one of ")[1].strip().split(", ")
        self.assertGreater(len(names), 10)
        listed = finished.stdout.split("What --fail-above limits:\n")[1].split("\n\n")[0]
        self.assertEqual([line.split()[0] for line in listed.splitlines()], names)


@unittest.skipIf(os.environ.get("SUPERPIPE_SANITIZER"), "a sanitizer keeps freed memory for a while")
class Scale(DiffCase):
    def test_memory_is_that_of_one_trace(self) -> None:
        """The launches of a trace are held, at most 50 bytes an event, and not those of both traces at a time."""
        peaks = []
        for passes in ("400", "4000"):
            trace = self.root / f"{passes}.sptrace"
            self.write_trace(trace, passes)
            code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
                    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
            told = subprocess.run([sys.executable, "-c", code, self.prefix / "bin" / "superpipe", "diff", trace, trace],
                                  check=True, capture_output=True, text=True, timeout=LIMIT)
            peaks.append(int(told.stdout))
        events = 3600 * 59
        self.assertLess(peaks[1], peaks[0] + 8192 + events * 50 // 1024)


if __name__ == "__main__":
    unittest.main()
