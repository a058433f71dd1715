"""Runs programs on simgpu with and without superpipe, and collects what the programs and both witnesses say."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT, clean_environment  # noqa: E402  (found through the path above)

BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", "build/dev")).resolve()
SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
SUPERPIPE = BUILD / "bin" / "superpipe"
LAYERS = BUILD / "bin" / "superpipe-layers"
MINILM = BUILD / "bin" / "superpipe-minilm"
WEIGHTS = Path(os.environ.get("SUPERPIPE_MINILM_DIR", SOURCE / ".deps" / "minilm"))

MIB = 1 << 20
# Links and kernels so fast that nothing waits for modelled time: these tests ask what is computed, not when. And each run
# has the host's memory to itself, whatever other tests run beside it. Host functions run one after the other, as drivers
# may have it.
FAST = {"SIMGPU_H2D_GBPS": "1000", "SIMGPU_D2H_GBPS": "1000", "SIMGPU_KERNEL_US": "1", "SIMGPU_HOST_FUNCTIONS": "serial",
        "SUPERPIPE_HOST_LEDGER": "none"}


@dataclass(frozen=True)
class Outcome:
    """What one run left behind."""

    returncode: int
    stdout: str
    stderr: str
    files: dict[str, bytes]  # what the program wrote into {out}
    driver: dict  # simgpu's statistics: the independent witness
    stats: dict  # superpipe's own; empty in a run without superpipe

    @property
    def computed(self) -> list[str]:
        """What was printed, without the times that superpipe-layers prints."""
        return [line for line in self.stdout.splitlines() if not line.startswith(("pass ", "mean: "))]

    @property
    def passes(self) -> int:
        """How many superpipe-layers ran."""
        return sum(line.startswith("pass ") for line in self.stdout.splitlines())

    @property
    def peak(self) -> int:
        return self.driver["peak_bytes"]


def run(command: list, *flags: str, without_superpipe: bool = False, environment: dict[str, str] | None = None,
        standard_input: str = "", simulate: bool = True) -> Outcome:
    """`superpipe run [--simulate] FLAGS -- COMMAND`; "{out}" in a word of the command is a folder made for the run."""
    with tempfile.TemporaryDirectory(prefix="superpipe-run-") as folder:
        out = Path(folder) / "out"
        out.mkdir()
        stats, driver = Path(folder) / "stats.json", Path(folder) / "simgpu.json"
        variables = {**clean_environment("LD_", "CUDA_"), **FAST, "SIMGPU_STATS": str(driver),
                     **(environment or {})}
        if without_superpipe:
            variables["SUPERPIPE_OFF"] = "1"
        else:
            variables.setdefault("SUPERPIPE_STATS", str(stats))
        words = [str(word).replace("{out}", str(out)) for word in command]
        simulated = ["--simulate"] if simulate else []
        finished = subprocess.run([str(SUPERPIPE), "run", *simulated, *flags, "--", *words], env=variables,
                                  capture_output=True, text=True, timeout=LIMIT,
                                  input=standard_input)
        read = lambda path: json.loads(path.read_text()) if path.is_file() else {}
        return Outcome(finished.returncode, finished.stdout.replace(str(out), "{out}"), finished.stderr,
                       {path.name: path.read_bytes() for path in sorted(out.iterdir())}, read(driver), read(stats))


def layers(n: int, mib: int, *more: str, passes: int = 4) -> list:
    """The command that runs `passes` over `n` layers of `mib` MiB and writes a digest of every buffer."""
    return [LAYERS, "--layers", n, "--layer-mib", mib, "--passes", passes, "--output", "{out}/digests", *more]


def schedules(n: int) -> list[tuple[str, ...]]:
    """The flags of superpipeline with every k from 1 to n, of superpipeline-paper with every k from
    2 to n and every k' from 1 to k-1 too, and of the other policies with some."""
    flags = [("--k", str(k)) for k in range(1, n + 1)]
    flags += [("--policy", "superpipeline-paper", "--k", str(k), "--k-prime", str(k_prime))
              for k in range(2, n + 1) for k_prime in range(1, k)]
    return flags + some_schedules(n)[2:]


def some_schedules(n: int) -> list[tuple[str, ...]]:
    """The least and the most room that policies have, and a window of which as little moves at a
    time as can be, or as much."""
    return [("--k", "2"), ("--k", str(n - 1)),
            ("--policy", "resident"),
            ("--policy", "naive", "--k", "1"), ("--policy", "naive", "--k", str(n - 1)),
            ("--policy", "superpipeline-paper", "--k", "1"),
            ("--policy", "superpipeline-paper", "--k", "3", "--k-prime", "2"),
            ("--policy", "superpipeline-paper", "--k", str(n - 1), "--k-prime", "1")]


class EndToEndCase(unittest.TestCase):
    """Assertions on outcomes."""

    def assert_succeeded(self, outcome: Outcome) -> None:
        self.assertEqual(outcome.returncode, 0, outcome.stdout + outcome.stderr)

    def assert_same_output(self, outcome: Outcome, reference: Outcome) -> None:
        self.assertEqual(outcome.returncode, reference.returncode, outcome.stderr)
        self.assertEqual(outcome.computed, reference.computed)
        self.assertEqual(outcome.files.keys(), reference.files.keys())
        for name, content in reference.files.items():
            self.assertTrue(outcome.files[name] == content, f"{name} differs")
        # A stale or missing byte may not reach what is printed; an access that should not have been does not hide.
        self.assertEqual(outcome.driver["unmapped_accesses"], 0)
        self.assertEqual(outcome.stats.get("errors", 0), 0)

    def assert_witnesses_agree(self, outcome: Outcome) -> None:
        """superpipe's own peak is within 1 % of what the driver saw."""
        own = outcome.stats["peak_device_bytes"] + outcome.stats["context_bytes"]
        self.assertLessEqual(abs(own - outcome.peak), outcome.peak / 100, f"{own} against {outcome.peak}")

    def assert_one_line(self, text: str, *parts: str) -> None:
        """`text` is one line that contains all of `parts`."""
        self.assertEqual(len(text.splitlines()), 1, text)
        for part in parts:
            self.assertIn(part, text)

    def lines(self, text: str, part: str) -> list[str]:
        return [line for line in text.splitlines() if part in line]
