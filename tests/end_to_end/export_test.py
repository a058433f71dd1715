"""`superpipe export` of what `superpipe profile` recorded on simgpu: others' readers find in it what the run's statistics say."""

import csv
import io
import json
import pickle
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from simulated_run import LIMIT, MIB, SUPERPIPE, EndToEndCase, layers, run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import trace_processor  # noqa: E402

LAYER_COUNT, PASSES = 6, 5


class Export(EndToEndCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="superpipe-export-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.trace = Path(cls.folder.name) / "run.sptrace"
        cls.outcome = run(layers(LAYER_COUNT, 2, passes=PASSES), "--trace", str(cls.trace), "--k", "3")

    def export(self, format_name: str, *flags: str) -> bytes:
        finished = subprocess.run([SUPERPIPE, "export", self.trace, "--format", format_name, "-o", "-", *flags],
                                  capture_output=True, timeout=LIMIT)
        self.assertEqual((finished.returncode, finished.stderr), (0, b""))
        return finished.stdout

    def test_csv_agrees_with_the_statistics(self) -> None:
        rows = list(csv.DictReader(io.StringIO(self.export("csv").decode())))
        stats = self.outcome.stats
        counts = Counter(row["event"] for row in rows)
        self.assertEqual(counts["eviction"], stats["evictions"])
        self.assertEqual(sum(int(row["size"]) for row in rows if row["event"] == "fetch"), stats["h2d_bytes"])
        self.assertEqual(sum(int(row["size"]) for row in rows if row["event"] == "eviction"), stats["d2h_bytes"])
        self.assertEqual(len([row for row in rows if row["event"] == "launch" and row["buffers"]]), LAYER_COUNT * PASSES)

    def test_trace_processor_agrees_with_the_statistics(self) -> None:
        if reason := trace_processor.missing():
            self.skipTest(reason)
        stats = self.outcome.stats
        exported = Path(self.folder.name) / "perfetto"
        exported.write_bytes(self.export("perfetto"))
        problems, fetches, flows, uses = trace_processor.query(
            exported,
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
            "select count(*) as n, sum(extract_arg(arg_set_id, 'debug.bytes')) as bytes from slice "
            "where name in ('demand fetch', 'prefetch')",
            "select count(*) as n, count(distinct slice_out) as fetches, coalesce(sum(b.ts < a.ts), 0) as backwards from flow "
            "join slice a on a.id = slice_out join slice b on b.id = slice_in",
            "select name, count(*) as n from slice where name like 'layer %' group by 1 order by 1")
        self.assertEqual(problems, [])
        self.assertEqual((fetches[0]["n"], fetches[0]["bytes"]), (stats["fetches"], stats["h2d_bytes"]))
        # What was fetched for a launch that never came has no arrow.
        self.assertEqual((flows[0]["n"], flows[0]["backwards"]), (flows[0]["fetches"], 0))
        self.assertGreater(flows[0]["n"], 0.5 * stats["fetches"])
        self.assertEqual([(use["name"], use["n"]) for use in uses],
                         [(f"layer {layer}", PASSES) for layer in range(1, LAYER_COUNT + 1)])

    def test_snapshot_has_the_layers(self) -> None:
        snapshot = pickle.loads(self.export("torch-snapshot"))
        (entries,) = snapshot["device_traces"]
        actions = Counter(entry["action"] for entry in entries)
        self.assertEqual(actions["alloc"], actions["free_completed"])
        self.assertEqual(len([entry for entry in entries if entry["action"] == "alloc" and entry["size"] >= MIB]), LAYER_COUNT)
        self.assertEqual(snapshot["segments"], [])

    def test_stacks(self) -> None:
        allocated = sum(int(line.rpartition(" ")[2]) for line in self.export("collapsed").decode().splitlines())
        speedscope = json.loads(self.export("speedscope"))
        self.assertEqual(speedscope["profiles"][0]["endValue"], allocated)
        self.assertGreaterEqual(allocated, LAYER_COUNT * 2 * MIB)
        stalled = [int(line.rpartition(" ")[2]) for line in self.export("collapsed", "--stacks", "stalls").decode().splitlines()]
        self.assertLessEqual(abs(sum(stalled) / 1e6 - self.outcome.stats["stall_ms"]), 0.05 * self.outcome.stats["stall_ms"] + 0.01)


if __name__ == "__main__":
    unittest.main()
