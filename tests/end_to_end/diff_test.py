"""`superpipe diff` of runs on simgpu: it finds the slower one, says where it waits, and agrees with the statistics."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from simulated_run import LIMIT, MIB, MINILM, SUPERPIPE, WEIGHTS, EndToEndCase, layers, run

LAYER_COUNT, PASSES, LAYER_MIB = 8, 10, 2
# So slow a link that what crosses it takes longer than anything that a busy machine does in between: 16 MiB take 160 ms.
SLOW_LINK = {"SIMGPU_H2D_GBPS": "0.1", "SIMGPU_D2H_GBPS": "0.1"}
AMPLE, SCARCE = "64M", "10M"


class DiffCase(EndToEndCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-diff-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    @classmethod
    def record(cls, name: str, command: list, budget: str) -> tuple[Path, Path]:
        """The trace and the statistics of a run."""
        trace, statistics = cls.folder / f"{name}.sptrace", cls.folder / f"{name}.json"
        outcome = run(command, "--gpu-mem", budget, "--trace", str(trace), environment=SLOW_LINK)
        if outcome.returncode != 0:
            raise AssertionError(outcome.stderr)
        statistics.write_text(json.dumps(outcome.stats))
        return trace, statistics

    def diff(self, code: int, *words: object) -> str:
        finished = subprocess.run([SUPERPIPE, "diff", *(str(word) for word in words)],
                                  capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((finished.returncode, finished.stderr), (code, ""), finished.stdout)
        return finished.stdout

    def diff_json(self, code: int, *words: object) -> dict:
        said = json.loads(self.diff(code, *words, "--json"))
        said["quantities"] = {one["name"]: one for one in said["quantities"]}
        return said


class Layers(DiffCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        program = layers(LAYER_COUNT, LAYER_MIB, passes=PASSES)
        cls.ample, cls.ample_statistics = cls.record("ample", program, AMPLE)
        cls.scarce, cls.scarce_statistics = cls.record("scarce", program, SCARCE)

    def test_smaller_budget_is_slower(self) -> None:
        said = self.diff_json(1, self.ample, self.scarce, "--fail-above", "20%,h2d_bytes=1%")
        self.assertEqual(said["gate"]["exceeded"], ["pass_ms", "h2d_bytes"])
        quantities = said["quantities"]
        self.assertEqual({quantities[name]["outcome"] for name in ("pass_ms", "stall_ms", "h2d_bytes", "fetches")}, {"worse"})
        self.assertEqual(quantities["budget_bytes"]["outcome"], "changed")
        self.assertEqual((quantities["peak_device_bytes"]["outcome"], quantities["launches"]["outcome"]), ("better", "same"))
        # The link explains the difference, and layers what the launches wait for.
        longer = quantities["pass_ms"]["b"]["value"] - quantities["pass_ms"]["a"]["value"]
        self.assertGreater(quantities["stall_ms"]["b"]["value"], longer / 4)
        waited = sum(group["b"]["stall_ms"] for group in said["groups"] if group["is_layer"])
        self.assertGreater(waited, longer / 4)
        self.assertEqual([group["a"]["name"] for group in said["groups"] if group["a"]["name"] != group["b"]["name"]], [])
        self.assertEqual(len([group for group in said["groups"] if group["is_layer"]]), LAYER_COUNT)
        text = self.diff(1, self.ample, self.scarce, "--fail-above", "20%")
        for part in ("B is slower: a pass takes", "longer for transfers. Most for layer ", "The budget of B is ", "FAILED pass_ms"):
            self.assertIn(part, text)

    def test_larger_budget_passes_the_gate(self) -> None:
        said = self.diff_json(0, self.scarce, self.ample, "--fail-above", "5%,stall_ms=0,h2d_bytes=0")
        self.assertEqual((said["quantities"]["pass_ms"]["outcome"], said["gate"]["passed"]), ("better", True))

    def test_a_run_against_itself_is_the_same(self) -> None:
        for files in ((self.scarce, self.scarce), (self.scarce_statistics, self.scarce_statistics)):
            said = self.diff_json(0, *files, "--fail-above", "0%,stall_ms=0,h2d_bytes=0")
            self.assertEqual({one["outcome"] for one in said["quantities"].values()}, {"same"})

    def test_statistics_say_the_same_as_traces(self) -> None:
        said = self.diff_json(0, self.scarce, self.scarce_statistics, "--fail-above", "h2d_bytes=0,d2h_bytes=0,fetches=0,demand_fetches=0,launches=0")
        for name in ("h2d_bytes", "d2h_bytes", "fetches", "demand_fetches", "evictions", "write_backs", "launches", "budget_bytes"):
            self.assertEqual(said["quantities"][name]["outcome"], "same", name)
        # As the program submitted its passes, and as the device reached them.
        self.assertLess(abs(said["quantities"]["pass_ms"]["change"]), 0.25)
        self.assertLess(abs(said["quantities"]["stall_ms"]["change"]), 0.02)

    def test_statistics_are_a_gate_too(self) -> None:
        # Where all is on the device policy learns no passes, so bytes are what both tell.
        said = self.diff_json(1, self.ample_statistics, self.scarce_statistics, "--fail-above", "h2d_bytes=5%")
        self.assertEqual(said["gate"]["exceeded"], ["h2d_bytes"])
        self.assertGreater(said["quantities"]["h2d_bytes"]["b"]["value"], LAYER_COUNT * LAYER_MIB * MIB)

    @unittest.skipUnless((WEIGHTS / "model.safetensors").is_file(), f"no weights in {WEIGHTS}: run scripts/fetch_minilm")
    def test_trace_of_another_program_is_refused(self) -> None:
        other, _ = self.record("minilm", [MINILM, "--model", WEIGHTS, "--repeat", "4", "A small cat."], "64M")
        finished = subprocess.run([SUPERPIPE, "diff", self.ample, other, "--fail-above", "5"],
                                  capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((finished.returncode, finished.stdout), (2, ""))
        self.assert_one_line(finished.stderr, "different programs, which have no kernel in common", "superpipe-layers", "superpipe-minilm")


if __name__ == "__main__":
    unittest.main()
