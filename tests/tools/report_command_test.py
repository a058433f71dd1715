"""`superpipe report`: the figures that its page carries, and one clear line for each bad input."""

import hashlib
import json
import os
import pty
import re
import resource
import subprocess
import sys
import unittest
from pathlib import Path

from command_case import BUILD, LIMIT, CommandCase, damaged_traces, files_that_are_no_traces

BAD_USAGE = 2
SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", ".")).resolve()
PASSES, WEIGHT, WEIGHTS, RESULT = 7, 15_000_000, 8, 4 << 20


def data_of(page: Path) -> dict:
    """The figures that a page carries."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    return json.loads(text)


class ReportCase(CommandCase):
    def setUp(self) -> None:
        super().setUp()
        self.trace = self.root / "run.sptrace"
        self.page = self.root / "report.html"
        self.write_trace(self.trace, str(PASSES))

    def write_trace(self, path: Path, *words: str) -> None:
        subprocess.run([BUILD / "tests" / "write_trace", path, *words], check=True, timeout=LIMIT)

    def report(self, *words: str) -> dict:
        finished = self.run_superpipe("report", *words, "-o", str(self.page))
        self.assertEqual((finished.returncode, finished.stdout, finished.stderr), (0, f"wrote {self.page}\n", ""))
        return data_of(self.page)


class Progress(ReportCase):
    def test_name_of_a_trace_does_not_steer_the_terminal(self) -> None:
        trace = self.root / "run\x1b[2J.sptrace"
        self.write_trace(trace)
        reader, terminal = pty.openpty()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, terminal)
        subprocess.run([self.prefix / "bin" / "superpipe", "report", trace, "-o", self.page, "--no-plan"], check=True,
                       stdout=subprocess.DEVNULL, stderr=terminal, timeout=LIMIT)
        shown = os.read(reader, 65536)
        self.assertIn(b"reading", shown)
        self.assertIn(b"run?[2J.sptrace", shown)
        self.assertNotIn(b"\x1b[2J", shown)


class Figures(ReportCase):
    def test_agree_with_what_was_written(self) -> None:
        (trace,) = self.report(str(self.trace))["traces"]
        self.assertEqual((trace["about"]["command"], trace["about"]["process"]), ('python generate "it".py', 4711))
        self.assertTrue(trace["complete"])
        counts = trace["counts"]
        self.assertEqual((counts["launches"], counts["passes"], counts["stalls"]), (8 * PASSES, PASSES, PASSES))
        self.assertEqual((counts["fetches"], counts["demand_fetches"]), (WEIGHTS * PASSES, WEIGHTS * PASSES // 2))
        self.assertEqual((counts["evictions"], counts["write_backs"]), ((WEIGHTS + 1) * PASSES, PASSES))
        self.assertEqual(trace["link"]["to_device_bytes"], WEIGHTS * PASSES * WEIGHT)
        self.assertEqual(trace["link"]["to_host_bytes"], PASSES * RESULT)
        self.assertEqual(trace["stalls"]["all_ns"], PASSES * 1_000_000)
        (waits,) = trace["waits"]
        self.assertEqual((waits["reason"], waits["calls"], waits["all_ns"]), ("for the device", PASSES, PASSES * 250_000))
        marks = {row["name"]: (row["ranges"], row["points"]) for row in trace["marks"]["rows"]}
        self.assertEqual(marks, {"forward \u00e4 \ufffd": (PASSES, 0), "step": (PASSES, PASSES)})
        memory = trace["memory"]
        self.assertEqual((memory["device_peak_bytes"], memory["pinned_host_peak_bytes"]), (39 << 20, 120 << 20))
        self.assertEqual((max(memory["device_most"]), max(memory["budget"])), (39 << 20, 80 << 20))

    def test_parts_sum_up(self) -> None:
        (trace,) = self.report(str(self.trace))["traces"]
        # Each bin is rounded to a whole byte or nanosecond.
        for bins, whole in ((trace["link"]["to_device"], trace["link"]["to_device_bytes"]), (trace["link"]["to_host"], trace["link"]["to_host_bytes"]),
                            (trace["stalls"]["ns"], trace["stalls"]["all_ns"]), (trace["waits"][0]["ns"], trace["waits"][0]["all_ns"])):
            self.assertLessEqual(abs(sum(bins) - whole), len(bins))
            self.assertEqual(len(bins), len(trace["memory"]["device_most"]))
        stalls = trace["stalls"]
        self.assertEqual(sum(kernel["stall_ns"] for kernel in trace["kernels"]), stalls["all_ns"])
        self.assertLessEqual(abs(sum(group["stall_ns"] for group in trace["groups"]) + stalls["unexplained_ns"] - stalls["all_ns"]),
                             len(trace["groups"]))
        self.assertEqual(sum(group["fetched_bytes"] for group in trace["groups"]), trace["link"]["to_device_bytes"])

    def test_layers_and_causes(self) -> None:
        (trace,) = self.report(str(self.trace))["traces"]
        self.assertEqual(trace["no_layers"], "")
        layers = [group for group in trace["groups"] if group["is_layer"]]
        self.assertEqual([layer["name"] for layer in layers], [f"layer {number}" for number in range(1, 5)] + ["shared by layers"])
        self.assertEqual([layer["buffers"] for layer in layers], [2, 2, 2, 2, 1])
        # The second layer's launch waits, in each pass, for both of its weights.
        self.assertEqual([layer["stall_ns"] for layer in layers], [0, PASSES * 1_000_000, 0, 0, 0])
        self.assertEqual(layers[1]["late_bytes"], 2 * PASSES * WEIGHT)
        site = trace["sites"][layers[0]["kinds"][0]["site"]]
        self.assertEqual((site["title"], site["allocations"], site["most_live_bytes"]), ("model::load(int)", WEIGHTS, WEIGHTS * WEIGHT))
        kernels = {kernel["name"]: kernel for kernel in trace["kernels"]}
        self.assertEqual(kernels["gemm(float const*, float const*, float*)"]["launches"], 4 * PASSES)
        self.assertEqual(kernels["gemm(float const*, float const*, float*)"]["late_bytes"], 2 * PASSES * WEIGHT)

    def test_predictions(self) -> None:
        what_if = self.report(str(self.trace))["traces"][0]["what_if"]
        budgets = [row["gpu_mem_bytes"] for row in what_if["rows"]]
        self.assertEqual(budgets, sorted(budgets))
        self.assertGreaterEqual(budgets[-1], what_if["needed_bytes"])
        self.assertTrue(all(budget >= what_if["least_bytes"] for budget in budgets))
        runs = [row for row in what_if["rows"] if "problem" not in row]
        self.assertEqual(runs[-1]["h2d_bytes"], 0)
        self.assertGreater(runs[0]["h2d_bytes"], 0)
        # The same question to superpipe plan has the same answer.
        planned = self.run_superpipe("plan", str(self.trace), "--gpu-mem", str(runs[0]["gpu_mem_bytes"]), "--json")
        (plan,) = json.loads(planned.stdout)["plans"]
        self.assertAlmostEqual(plan["pass_ms"], runs[0]["pass_ms"], places=6)
        (trace,) = self.report(str(self.trace), "--no-plan")["traces"]
        self.assertEqual((trace["what_if"], trace["no_what_if"]), (None, "it was left out (--no-plan)"))
        self.assertEqual(trace["no_layers"], "")

    def test_size_does_not_grow_with_the_trace(self) -> None:
        sizes = []
        for passes in ("400", "4000"):
            trace = self.root / f"{passes}.sptrace"
            self.write_trace(trace, passes)
            self.report(str(trace), "--no-plan")
            sizes.append(self.page.stat().st_size)
        self.assertLess(sizes[1], 1.5 * sizes[0])
        self.assertLess(sizes[1], 1 << 20)

    def test_two_traces(self) -> None:
        other = self.root / "other.sptrace"
        self.write_trace(other, "2")
        traces = self.report(str(self.trace), str(other))["traces"]
        self.assertEqual([trace["counts"]["passes"] for trace in traces], [PASSES, 2])
        self.assertEqual([trace["file"] for trace in traces], [str(self.trace), str(other)])

    def test_page_is_whole_and_loads_nothing(self) -> None:
        self.report(str(self.trace))
        page = self.page.read_text(encoding="utf-8")
        self.assertNotIn("{{", page.split('id="data"')[0])
        self.assertIn("default-src 'none'", page)
        self.assertNotRegex(page, r"(?i)<(script|link|img|iframe)[^>]+(src|href)\s*=\s*[\"']?(https?:|//)")
        self.assertIn("Permission is hereby granted", page)

    def test_names_cannot_break_out(self) -> None:
        """Of kernels, and of files, which the title has."""
        hostile = self.root / "<script>alert(1)</script>&.sptrace".replace("/", "\N{FRACTION SLASH}")
        self.write_trace(hostile, "1")
        data = self.report(str(hostile))
        self.assertEqual(data["traces"][0]["file"], str(hostile))
        self.assertNotIn("<script>alert", self.page.read_text(encoding="utf-8"))

    def test_traces_that_are_kept_in_the_tree(self) -> None:
        for path in sorted((SOURCE / "tests" / "profiler" / "traces").glob("*.sptrace")):
            with self.subTest(path=path.name):
                finished = self.run_superpipe("report", str(path), "-o", str(self.page))
                self.assertEqual(finished.returncode, 0, finished.stderr)
                self.assertGreater(data_of(self.page)["traces"][0]["events"], 0)

    def test_standard_output(self) -> None:
        self.report(str(self.trace))
        finished = self.run_superpipe("report", str(self.trace), "-o", "-")
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        self.assertEqual(finished.stdout, self.page.read_text(encoding="utf-8"))


class BadInput(ReportCase):
    def refused(self, path: Path, *says: str) -> None:
        with self.subTest(path=path.name, says=says):
            finished = self.run_superpipe("report", str(self.trace), str(path), "-o", str(self.page))
            self.assert_one_line(finished, BAD_USAGE, "superpipe report: ", str(path), *says)
            self.assertEqual([left.name for left in self.root.iterdir() if left.name.startswith("report.html")], [])

    def test_files_that_are_no_traces(self) -> None:
        self.refused(self.root / "nowhere", "No such file or directory")
        self.refused(self.root, "no regular file")
        bad = self.root / "bad.sptrace"
        for content in files_that_are_no_traces(self.trace.read_bytes()):
            bad.write_bytes(content)
            self.refused(bad)

    def test_damage_is_found_wherever_it_is(self) -> None:
        bad = self.root / "bad.sptrace"
        for content in damaged_traces(self.trace.read_bytes()):
            bad.write_bytes(content)
            self.refused(bad)

    def test_process_that_died(self) -> None:
        died = self.root / "died.sptrace"
        self.write_trace(died, "3", "died")
        finished = self.run_superpipe("report", str(died), "-o", str(self.page))
        self.assertEqual((finished.returncode, finished.stdout), (0, f"wrote {self.page}\n"))
        self.assertRegex(finished.stderr, r"^superpipe report: note: .*died.sptrace ends early, because its process died or the disk was full; "
                                          r"the report is on the \d+ events up to there\n$")
        self.assertFalse(data_of(self.page)["traces"][0]["complete"])

    def test_pages_that_cannot_be_written(self) -> None:
        folder = self.root / "folder"
        folder.mkdir()
        for output, says in (("/dev/full", "No space left on device"), (str(folder), "it is a folder"),
                             (str(self.root / "no" / "such"), "No such file or directory")):
            with self.subTest(output=output):
                self.assert_one_line(self.run_superpipe("report", str(self.trace), "-o", output), BAD_USAGE,
                                     f"superpipe report: cannot write {output}: ", says)
        if os.geteuid() != 0:
            kept = self.root / "kept.html"
            kept.write_text("kept")
            kept.chmod(0o444)
            self.assert_one_line(self.run_superpipe("report", str(self.trace), "-o", str(kept)), BAD_USAGE, "Permission denied")
            self.assertEqual(kept.read_text(), "kept")
        before = self.trace.read_bytes()
        self.assert_one_line(self.run_superpipe("report", str(self.trace), "-o", "./run.sptrace"), BAD_USAGE, "is a trace itself")
        self.assertEqual(self.trace.read_bytes(), before)
        self.assertEqual([path.name for path in self.root.iterdir() if path.name.endswith(".part")], [])

    def test_disk_that_fills_up_leaves_nothing(self) -> None:
        def limit_files() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

        finished = subprocess.run(["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh", self.prefix / "bin" / "superpipe", "report", self.trace, "-o",
                                   self.page], preexec_fn=limit_files, capture_output=True,
                                   text=True, timeout=LIMIT)
        self.assert_one_line(finished, BAD_USAGE, f"cannot write {self.page}: File too large")
        self.assertEqual([path.name for path in self.root.iterdir() if path.name.startswith("report.html")], [])

    def test_usage(self) -> None:
        trace = str(self.trace)
        for words, says in (
                ([], ["no trace"]),
                ([trace], ["no file", "-o FILE"]),
                ([trace] * 5 + ["-o", "x"], ["5 traces are too many", "up to 4"]),
                ([trace, "-o", "x", "--link", "gen9"], ["--link gen9", "gen3, gen4, gen5"]),
                ([trace, "-o", "x", "--link", "gen3", "--no-plan"], ["--link is for the plan"]),
                ([trace, "-o", "x", "--color"], ["there is no flag '--color'"]),
                ([trace, "-o", "x", "--", "true"], ["it takes no command"])):
            with self.subTest(words=words):
                self.assert_one_line(self.run_superpipe("report", *words), BAD_USAGE, "superpipe report: ", *says)

    def test_help_has_examples(self) -> None:
        finished = self.run_superpipe("report", "--help")
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        for part in ("Examples:", "superpipe report run.sptrace -o report.html", "--no-plan", "--link"):
            self.assertIn(part, finished.stdout)


class Vendored(unittest.TestCase):
    def test_chart_library_is_as_published(self) -> None:
        folder = SOURCE / "third_party" / "uplot"
        said = dict(re.findall(r"^\| `([^`]+)` \| `([0-9a-f]{64})` \|$", (folder / "README.md").read_text(), re.MULTILINE))
        self.assertEqual(sorted(said), ["uPlot.iife.min.js", "uPlot.min.css"])
        for name, digest in said.items():
            self.assertEqual(hashlib.sha256((folder / name).read_bytes()).hexdigest(), digest, name)


@unittest.skipIf(os.environ.get("SUPERPIPE_SANITIZER"), "a sanitizer keeps freed memory for a while")
class Scale(ReportCase):
    def test_memory_of_figures_does_not_grow_with_the_trace(self) -> None:
        """Beyond what the plan holds of it, which is at most 50 bytes an event."""
        peaks = []
        for passes in ("400", "4000"):
            trace = self.root / f"{passes}.sptrace"
            self.write_trace(trace, passes)
            code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
                    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
            told = subprocess.run([sys.executable, "-c", code, self.prefix / "bin" / "superpipe", "report", trace, "--no-plan", "-o",
                                   "/dev/null"], check=True, capture_output=True, text=True,
                                   timeout=LIMIT)
            peaks.append(int(told.stdout))
        events = 3600 * 59
        self.assertLess(peaks[1], peaks[0] + 8192 + events * 50 // 1024)


if __name__ == "__main__":
    unittest.main()
