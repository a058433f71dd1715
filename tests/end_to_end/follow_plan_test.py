"""A plan from `superpipe plan -o` that `superpipe run --plan` follows: from its first pass on, until the program leaves it."""

import json
import os
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

from simulated_run import FAST, LIMIT, MIB, SUPERPIPE, clean_environment, layers

N, LAYER, PASSES, BUDGET = 12, 4, 8, 34


def command(*words: object, environment: dict | None = None, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(SUPERPIPE), *map(str, words)],
                          env={**clean_environment("LD_", "CUDA_"), **FAST, **(environment or {})},
                          capture_output=True, text=True, timeout=LIMIT, **options)


class FollowPlanTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.holder = tempfile.TemporaryDirectory(prefix="superpipe-follow-plan-test-")
        cls.addClassCleanup(cls.holder.cleanup)
        cls.folder = Path(cls.holder.name)
        cls.trace = cls.folder / "run.sptrace"
        cls.path = cls.folder / "run.spplan"
        recorded = command("profile", "--simulate", "-o", cls.trace, "--", *cls.program())
        assert recorded.returncode == 0, recorded.stderr
        cls.said = command("plan", cls.trace, "--gpu-mem", f"{BUDGET}M", "-o", cls.path)
        assert cls.said.returncode == 0, cls.said.stderr

    @classmethod
    def program(cls, count: int = N, layer: int = LAYER, name: str = "out") -> list[str]:
        cls.output = cls.folder / name
        cls.output.mkdir(exist_ok=True)
        return [str(word).replace("{out}", str(cls.output)) for word in layers(count, layer, passes=PASSES)]

    def run_with(self, *flags: object, program: list[str] | None = None, code: int = 0,
                 environment: dict | None = None) -> tuple[subprocess.CompletedProcess, dict]:
        stats = self.folder / "stats.json"
        stats.unlink(missing_ok=True)
        finished = command("run", "--simulate", *flags, "--stats", stats, "--", *(program or self.program()),
                           environment=environment)
        self.assertEqual(finished.returncode, code, finished.stdout + finished.stderr)
        finished.digests = [line for line in finished.stdout.splitlines() if line.startswith("digest: ")]
        if code == 0:
            self.assertEqual(len(finished.digests), 1, finished.stdout)
            finished.digests += (self.output / "digests").read_text().splitlines()
        return finished, json.loads(stats.read_text()) if stats.exists() else {}

    def lines(self, finished: subprocess.CompletedProcess, text: str) -> list[str]:
        return [line for line in finished.stderr.splitlines() if text in line]

    def test_the_plan_says_what_it_is_for(self) -> None:
        self.assertIn(f"The plan for {BUDGET} MiB is in {self.path}", self.said.stdout)
        self.assertIn(f"superpipe run --plan {self.path} -- COMMAND", self.said.stdout)
        header, body = map(json.loads, self.path.read_text().splitlines())
        self.assertEqual((header["format"], header["version"]), ("superpipe-plan", 1))
        self.assertEqual(body["gpu_mem_bytes"], BUDGET * MIB)
        self.assertEqual(body["policy"], "auto")
        self.assertGreaterEqual(len(body["launches"]), N)
        self.assertEqual([bytes for bytes in body["buffers"] if bytes >= LAYER * MIB], [LAYER * MIB] * N)

    def test_a_run_follows_it_to_its_end_within_its_budget_and_computes_the_same(self) -> None:
        planned, stats = self.run_with("--plan", self.path)
        alone, _ = self.run_with("--gpu-mem", f"{BUDGET}M")
        self.assertEqual(planned.digests, alone.digests)
        self.assertEqual(stats["policy"], "auto")
        self.assertEqual(stats["budget_bytes"] + stats["context_bytes"], BUDGET * MIB)
        self.assertLessEqual(stats["peak_device_bytes"], BUDGET * MIB)
        self.assertGreater(stats["h2d_bytes"], 0)
        self.assertEqual(stats["errors"], 0)
        plan = stats["plan"]
        self.assertEqual((plan["followed"], plan["left_at"]), (plan["launches"], None))
        self.assertEqual(len(self.lines(planned, f"followed the plan for {plan['launches']} of {plan['launches']} launches")), 1)
        self.assertEqual(self.lines(alone, "plan"), [])

    def test_flags_go_before_what_the_plan_says(self) -> None:
        _, stats = self.run_with("--plan", self.path, "--gpu-mem", f"{BUDGET + 8}M")
        self.assertEqual(stats["budget_bytes"] + stats["context_bytes"], (BUDGET + 8) * MIB)
        self.assertIsNone(stats["plan"]["left_at"])
        _, stats = self.run_with("--plan", self.path, "--policy", "lru")
        self.assertEqual((stats["policy"], stats["budget_bytes"] + stats["context_bytes"]), ("lru", BUDGET * MIB))
        self.assertNotIn("plan", stats)

    def test_the_variable_does_as_well(self) -> None:
        _, stats = self.run_with(environment={"SUPERPIPE_PLAN": str(self.path)})
        self.assertEqual(stats["budget_bytes"] + stats["context_bytes"], BUDGET * MIB)
        self.assertIsNone(stats["plan"]["left_at"])

    def test_another_program_leaves_it_after_one_line_and_computes_the_same(self) -> None:
        other = self.program(10, 6, "other")
        reference, _ = self.run_with("--gpu-mem", f"{BUDGET}M", program=other)
        left, stats = self.run_with("--plan", self.path, program=other)
        self.assertEqual(left.digests, reference.digests)
        self.assertTrue(stats["plan"]["is_of_another_program"])
        self.assertEqual(len(self.lines(left, "the plan is of another program")), 1, left.stderr)
        self.assertEqual(len(self.lines(left, "left it at launch")), 1, left.stderr)

    def test_when_strict_another_program_ends_with_exit_code_2(self) -> None:
        ended, _ = self.run_with("--plan", self.path, "--strict", program=self.program(10, 6, "other"), code=2)
        self.assertEqual(len(ended.stderr.splitlines()), 1, ended.stderr)
        self.assertIn("SUPERPIPE_STRICT=1, so it ends here", ended.stderr)
        self.run_with("--plan", self.path, "--strict")

    def test_a_program_with_fewer_layers_leaves_it_and_computes_the_same(self) -> None:
        shorter = self.program(N - 3, LAYER, "shorter")
        reference, _ = self.run_with("--gpu-mem", f"{BUDGET}M", program=shorter)
        left, stats = self.run_with("--plan", self.path, program=shorter)
        self.assertEqual(left.digests, reference.digests)
        self.assertGreater(stats["plan"]["followed"], 0)

    def test_bad_files_are_refused_before_anything_runs(self) -> None:
        whole = self.path.read_bytes()
        header, _, body = whole.partition(b"\n")
        bad = {
            "empty": (b"", "empty"),
            "cut": (whole[:-20], "20 bytes are missing"),
            "damaged": (whole.replace(b'"auto"', b'"autp"'), "checksum"),
            "foreign": (b"\x7fELF" + bytes(100), "it is no plan"),
            "trace": (self.trace.read_bytes(), "it is no plan"),
            "newer": (header.replace(b'"version":1', b'"version":2') + b"\n" + body, "newer superpipe"),
        }
        for name, (content, says) in bad.items():
            with self.subTest(file=name):
                path = self.folder / f"{name}.spplan"
                path.write_bytes(content)
                refused = command("run", "--simulate", "--plan", path, "--", "/bin/echo", "started")
                self.assertEqual((refused.returncode, refused.stdout), (2, ""))
                self.assertEqual(len(refused.stderr.splitlines()), 1, refused.stderr)
                self.assertIn(f"--plan {path}: ", refused.stderr)
                self.assertIn(says, refused.stderr)
                unmanaged, _ = self.run_with(environment={"SUPERPIPE_PLAN": str(path)})
                self.assertEqual(len(self.lines(unmanaged, "superpipe:")), 1, unmanaged.stderr)
                self.assertIn("; the program runs without superpipe", unmanaged.stderr)

    def test_what_cannot_be_written_is_one_line_and_exit_code_2(self) -> None:
        for path in ("/no/such/folder/plan", "/dev/full"):
            with self.subTest(path=path):
                refused = command("plan", self.trace, "--gpu-mem", f"{BUDGET}M", "-o", path)
                self.assertEqual(refused.returncode, 2)
                self.assertEqual(len(refused.stderr.splitlines()), 1, refused.stderr)
                self.assertIn("cannot write ", refused.stderr)

    def test_a_full_disk_leaves_the_old_plan(self) -> None:
        path = self.folder / "kept.spplan"
        path.write_text("old")

        def allow_few_bytes() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

        # A write beyond the limit sends SIGXFSZ, which a shell can have ignored.
        words = ["/bin/sh", "-c", 'trap "" XFSZ; exec "$@"', "sh", str(SUPERPIPE), "plan", str(self.trace), "--gpu-mem",
                 f"{BUDGET}M", "-o", str(path)]
        refused = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT,
                                 preexec_fn=allow_few_bytes)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertEqual(len(refused.stderr.splitlines()), 1, refused.stderr)
        self.assertIn("cannot write ", refused.stderr)
        self.assertEqual(path.read_text(), "old")

    def test_a_budget_that_does_not_run_has_no_plan(self) -> None:
        path = self.folder / "none.spplan"
        refused = command("plan", self.trace, "--gpu-mem", "1M", "-o", path)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("there is no plan to write", refused.stderr)
        self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
