"""scripts/measurements_to_docs: pages from results, questions struck out by a result only, nothing simulated among them."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT  # noqa: E402  (found through the path above)

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
TOOL = SOURCE / "scripts" / "measurements_to_docs"
OPEN_LIST = SOURCE / "docs" / "measurements" / "OPEN.md"
GPU = "NVIDIA H100 80GB HBM3"
sys.path.insert(0, str(SOURCE / "scripts"))
from measurements.open_questions import PEERS, listed  # noqa: E402  (found through the path above)
from measurements.plots import Series, line_plot, ticks  # noqa: E402

PROBES = (*range(11), *range(14, 23), *range(24, 34))
ALL = [*(f"H{number}" for number in range(12)), "H12a", "H12b",
       *(f"H{number}" for number in range(13, 34))]


def cell(**figures: object) -> dict:
    return {"problem": "", "seconds": 1.0, **figures}


def layers_cell(**more: object) -> dict:
    return cell(pass_ms=20.0, physical_ms=10.0, times_physical=2.0, achievable_ms=12.0, times_achievable=1.67,
                sliding_window_ms=15.0, times_sliding_window=1.33, peak_bytes=1 << 30, **more)


def a_check() -> dict[str, dict]:
    """What a whole check on a GPU leaves, in small: file name to content."""
    base = {"simulated": False, "device": GPU, "status": "passed", "reason": ""}
    loads = ("memory", "balanced")
    examples = {"link/before": cell(h2d_bytes_per_second=55e9, d2h_bytes_per_second=52e9), "minilm/k2": layers_cell(k=2)}
    examples |= {f"layers/{load}/k{k}": layers_cell(k=k, k_prime=0) for load in loads for k in (2, 4, 8)}
    examples |= {f"layers/{load}/budget{percent}": layers_cell(percent=percent) for load in loads
                 for percent in (10, 25, 50, 75, 90, 100)}
    torch = {f"{script}/{name}": cell(digests=["a"], pass_ms=5.0, stats={"h2d_bytes": 1 << 20, "tensor_maps": 3}, percent=name)
             for script in ("inference", "training") for name in (100, 50, 25)}
    torch |= {f"{script}/without": cell(digests=["a"], pass_ms=4.0) for script in ("inference", "training")}
    torch |= {"training/times-off": cell(digests=["a"], pass_ms=5.0),
              "training/times-cupti": cell(digests=["a"], pass_ms=5.2, measured_share=0.98)}
    peers = [{"model": "llama-decode", "budget": "50", "peer": name, "name": f"the {name}", "problem": "", "pass_ms": 9.0,
              "times_bound": 1.2, "peak_bytes": 1 << 30, "memory": "equal", "host_bytes": 1 << 30,
              "moved_bytes": [1 << 20, 0], "lines_changed": 3, "output": "same"} for name in PEERS]
    peers.append({**peers[0], "peer": "cpu-offload", "name": "other", "problem": "not installed: accelerate"})
    probes = [{"id": f"H{number}", "question": "does it?", "outcome": "answered", "answer": "yes | no",
               "figures": {"gigabytes_per_second": 1.5, "sizes": [1, 2]}} for number in PROBES]
    return {
        "summary": {**base, "package_version": "0.1.0", "started": "2026-11-21T10:00:00+00:00", "driver": {"cuda": [13, 0]},
                    "steps": {"doctor": {"status": "passed", "seconds": 60.0, "reason": ""}},
                    "environment": {"lscpu": "Model name: Some CPU", "memory": {"MemTotal": 1 << 36}}},
        "doctor": {**base, "cells": {"doctor": cell()}, "doctor": {"simulated": False, "probes": probes}},
        "conformance": {**base, "cells": {"driver/A": {"tests": {}}}, "counts": {"passed": 80, "skipped": 1},
                        "skipped": {"A.B": "not supported"},
                        "differences": [{"test": "A.C", "what": "result", "driver": "failed", "simgpu": "passed", "why": "x"}]},
        "tests": {**base, "cells": {"end-to-end/forward/k1": cell(launches=10, evictions=5),
                                    "random/1": cell(problem="program 7: other bytes")}, "random_programs": 1000},
        "examples": {**base, "cells": examples, "minilm_weights": "random weights"},
        "torch": {**base, "cells": torch},
        "peers": {**base, "cells": {"llama-decode/50": cell(rows=peers)}},
        "launch": {**base, "cells": {"hook": cell(added_ns=90.0)}, "added_ns": {"no_buffers": 50.0, "eight_buffers": 120.0}},
    }


class MeasurementsToDocs(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory(prefix="measurements-")
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)
        self.docs = self.root / "docs" / "measurements"
        self.docs.mkdir(parents=True)
        # As it was before any measurement: the list of today may be shorter.
        rows = "".join(f"| {question} | what? | `scripts/gpu_check.sh` |\n" for question in ALL)
        (self.docs / "OPEN.md").write_text(f"# Open questions\n\nWords.\n\n| | question | command |\n|---|---|---|\n{rows}")

    def write(self, content: dict[str, dict], name: str = "results") -> Path:
        folder = self.root / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for step, value in content.items():
            (folder / f"{step}.json").write_text(json.dumps(value))
        return folder

    def convert(self, folder: Path, *more: object) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-B", TOOL, folder, "--docs", self.docs, *map(str, more)], capture_output=True,
                              text=True, timeout=LIMIT)

    def still_open(self) -> list[str]:
        return listed((self.docs / "OPEN.md").read_text())

    def assert_refused(self, finished: subprocess.CompletedProcess, *says: str) -> None:
        self.assertEqual(finished.returncode, 1, finished.stdout + finished.stderr)
        self.assertEqual(finished.stderr.count("\n"), 1, finished.stderr)
        for part in says:
            self.assertIn(part, finished.stderr)
        self.assertEqual([entry.name for entry in self.docs.iterdir()], ["OPEN.md"])
        self.assertEqual(self.still_open(), ALL)

    # Pages.

    def test_page_has_every_part_and_names_the_gpu_at_each(self) -> None:
        finished = self.convert(self.write(a_check()))
        self.assertEqual(finished.returncode, 0, finished.stderr)
        page = self.docs / "2026-11-21-nvidia-h100-80gb-hbm3"
        text = (page / "README.md").read_text()
        for part in ("Steps", "What only hardware can answer", "Conformance", "Programs with and without", "The link", "minilm",
                     "Layers, kernels as fast", "PyTorch", "beside what users would pick", "the fsdp", "not installed: accelerate", "Launches", "A.C", "not supported", "program 7: other bytes",
                     "1000 random programs", "yes \\| no"):
            self.assertIn(part, text)
        self.assertNotIn("imulated", text)
        for heading in re.findall(r"^##? .*$", text, re.M):
            self.assertIn(GPU, heading)
        pictures = re.findall(r"!\[(.*)\]\((.*)\)", text)
        self.assertEqual(len(pictures), 6)
        for caption, file in pictures:
            self.assertIn(GPU, caption)
            self.assertIn(GPU, "".join(ElementTree.parse(page / file).getroot().itertext()))
        for step, value in a_check().items():
            self.assertEqual(json.loads((page / f"{step}.json").read_text()), value)

    def test_same_check_again_is_the_same_page_and_another_one_of_that_day_another(self) -> None:
        content = a_check()
        self.convert(self.write(content))
        self.convert(self.write(content))
        self.assertEqual(len(list(self.docs.iterdir())), 2)
        content["summary"]["started"] = "2026-11-21T12:00:00+00:00"
        self.convert(self.write(content))
        self.assertTrue((self.docs / "2026-11-21-nvidia-h100-80gb-hbm3-2").is_dir())

    def test_a_check_of_one_step_makes_a_page(self) -> None:
        content = a_check()
        finished = self.convert(self.write({name: content[name] for name in ("summary", "launch")}))
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertEqual(self.still_open(), ALL)

    # Open questions.

    def test_questions_with_a_result_leave_the_list_and_no_others(self) -> None:
        content = a_check()
        probes = content["doctor"]["doctor"]["probes"]
        for number, outcome in ((2, "crashed"), (3, "timed_out"), (4, "not_supported"), (5, "skipped"), (6, "failed")):
            probes[number]["outcome"] = outcome
        before = (self.docs / "OPEN.md").read_text()
        finished = self.convert(self.write(content))
        self.assertEqual(self.still_open(), ["H2", "H3", "H5", "H6"])
        struck = ", ".join(question for question in ALL if question not in ("H2", "H3", "H5", "H6"))
        self.assertIn(f"answered now: {struck};", finished.stdout)
        after = (self.docs / "OPEN.md").read_text()
        self.assertEqual([line for line in before.splitlines() if line in after.splitlines()], after.splitlines())

    def test_frameworks_and_pass_times_need_every_cell(self) -> None:
        for step, name in (("torch", "training/25"), ("examples", "layers/balanced/budget10")):
            with self.subTest(name):
                content = a_check()
                del content["doctor"], content["torch" if step == "examples" else "examples"]
                del content[step]["cells"][name]
                content.get("torch", {}).get("cells", {}).pop("training/times-cupti", None)
                del content["peers"]["cells"]["llama-decode/50"]["rows"][2]
                self.convert(self.write(content))
                self.assertEqual(self.still_open(), ALL)

    def test_a_skipped_torch_step_answers_nothing(self) -> None:
        content = a_check()
        content["torch"] = {"status": "skipped", "reason": "Python without torch", "simulated": False, "device": GPU, "cells": {}}
        self.convert(self.write(content))
        self.assertIn("H11", self.still_open())

    def test_today_s_list_names_a_command_for_each_question(self) -> None:
        text = OPEN_LIST.read_text()
        self.assertLessEqual(set(listed(text)), set(ALL))
        for line in text.splitlines():
            if line.startswith("| H"):
                self.assertIn("scripts/gpu_check.sh", line)

    def test_every_open_question_says_what_its_answer_would_change(self) -> None:
        text = OPEN_LIST.read_text()
        changes = text.partition("## What the answers would change")[2]
        without_words = ("H12b",)  # its answer is a comparison for users
        for question in set(listed(text)) - set(without_words):
            self.assertIn(f"\n- {question}, ", changes)

    def test_every_picture_of_the_documentation_says_what_it_was_drawn_from(self) -> None:
        pages = [SOURCE / "README.md", *(SOURCE / "docs").rglob("*.md"), *(SOURCE / "examples").rglob("*.md")]
        pictures = [caption for page in pages for caption in re.findall(r"!\[(.*?)\]\(", page.read_text())]
        self.assertGreater(len(pictures), 0)
        for caption in pictures:
            self.assertRegex(caption, r"\((simulated.*|NVIDIA .*|made from [\w/.]+)\)$")

    # Nothing simulated.

    def simulated(self) -> dict[str, dict]:
        content = a_check()
        for value in content.values():
            value["simulated"], value["device"] = True, "simgpu H200"
        return content

    def test_simulated_results_are_refused(self) -> None:
        self.assert_refused(self.convert(self.write(self.simulated())), "simulated GPU")

    def test_one_simulated_step_among_measured_ones_is_enough(self) -> None:
        for change in (lambda content: content["examples"].update(simulated=True),
                       lambda content: content["examples"].update(device="simgpu H200"),
                       lambda content: content["doctor"]["doctor"].update(simulated=True),
                       lambda content: content["launch"].pop("simulated")):
            content = a_check()
            change(content)
            self.assert_refused(self.convert(self.write(content)), "simulated GPU")

    def test_simulated_page_goes_elsewhere_or_nowhere(self) -> None:
        folder = self.write(self.simulated())
        self.assert_refused(self.convert(folder, "--allow-simulated"), "needs --output")
        self.assert_refused(self.convert(folder, "--allow-simulated", "--output", self.docs / "page"), "goes elsewhere")
        elsewhere = self.root / "elsewhere"
        finished = self.convert(folder, "--allow-simulated", "--output", elsewhere)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertEqual(self.still_open(), ALL)
        for heading in re.findall(r"^##? .*$", (elsewhere / "README.md").read_text(), re.M):
            self.assertIn("simulated", heading)

    def test_what_is_no_folder_of_results_is_refused(self) -> None:
        self.assert_refused(self.convert(self.root / "none"), "summary.json")
        (self.write({}) / "summary.json").write_text("{")
        self.assert_refused(self.convert(self.root / "results"), "damaged")
        content = a_check()
        content["summary"]["device"] = ""
        self.assert_refused(self.convert(self.write(content)), "nothing was checked")


class Plots(unittest.TestCase):
    def test_ticks_are_round_and_inside(self) -> None:
        self.assertEqual(ticks(0, 10), [0, 2, 4, 6, 8, 10])
        self.assertEqual(ticks(0, 0.9), [0, 0.2, 0.4, 0.6, 0.8])
        self.assertEqual(ticks(10, 100, 8), [20, 40, 60, 80, 100])

    def test_points_lie_where_they_belong(self) -> None:
        text = line_plot("T", "GPU <1>", "x", "y", [Series("a", [(1, 10), (2, 20)]), Series("b", [(1, 5), (2, 5)], bound=True)])
        root = ElementTree.fromstring(text)
        space = "{http://www.w3.org/2000/svg}"
        (left, right) = root.findall(f"{space}circle")
        self.assertLess(float(left.get("cx")), float(right.get("cx")))
        self.assertGreater(float(left.get("cy")), float(right.get("cy")))
        self.assertIn("GPU <1>", "".join(root.itertext()))

    def test_nothing_to_draw_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            line_plot("T", "GPU", "x", "y", [Series("a", [])])


if __name__ == "__main__":
    unittest.main()
