"""Runs programs on simgpu with and without superpipe, and collects what the programs and both witnesses say."""

import json
import os
import subprocess
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", "build/dev")).resolve()
SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
SUPERPIPE = BUILD / "bin" / "superpipe"
LAYERS = BUILD / "bin" / "superpipe-layers"
MINILM = BUILD / "bin" / "superpipe-minilm"
WEIGHTS = Path(os.environ.get("SUPERPIPE_MINILM_DIR", SOURCE / ".deps" / "minilm"))

MIB = 1 << 20
# Links and kernels so fast that nothing waits for modelled time: these tests ask what is computed, not when. And each run
# has the host's memory to itself, whatever other tests run beside it.
FAST = {"SIMGPU_H2D_GBPS": "1000", "SIMGPU_D2H_GBPS": "1000", "SIMGPU_KERNEL_US": "1", "SUPERPIPE_HOST_LEDGER": "none"}


# Of the time for which the simulated engines were busy, the share that may be lateness of the machine where times count.
MOST_OVERRUN = 0.01
# Where times count: driver calls take theirs too, and device memory is as fast as this machine can fill it.
MEASURED = {"SIMGPU_CALL_COSTS": "on", "SIMGPU_DEVICE_GBPS": "6", "SIMGPU_KERNEL_US": "20"}


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
    def in_time(self) -> bool:
        """Whether times of this run mean something: the machine kept up with simgpu's model."""
        return self.driver["overrun_share"] <= MOST_OVERRUN

    @property
    def peak(self) -> int:
        return self.driver["peak_bytes"]


def run(command: list, *flags: str, without_superpipe: bool = False, environment: dict[str, str] | None = None,
        standard_input: str = "", timeout: int = 120, simulate: bool = True) -> Outcome:
    """`superpipe run [--simulate] FLAGS -- COMMAND`; "{out}" in a word of the command is a folder made for the run."""
    with tempfile.TemporaryDirectory(prefix="superpipe-run-") as folder:
        out = Path(folder) / "out"
        out.mkdir()
        stats, driver = Path(folder) / "stats.json", Path(folder) / "simgpu.json"
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(("SUPERPIPE_", "SIMGPU_", "LD_", "CUDA_"))}
        variables = {**inherited, **FAST, "SIMGPU_STATS": str(driver), **(environment or {})}
        if without_superpipe:
            variables["SUPERPIPE_OFF"] = "1"
        else:
            variables.setdefault("SUPERPIPE_STATS", str(stats))
        words = [str(word).replace("{out}", str(out)) for word in command]
        simulated = ["--simulate"] if simulate else []
        finished = subprocess.run([str(SUPERPIPE), "run", *simulated, *flags, "--", *words], env=variables,
                                  capture_output=True, text=True, timeout=timeout, input=standard_input)
        read = lambda path: json.loads(path.read_text()) if path.is_file() else {}
        return Outcome(finished.returncode, finished.stdout.replace(str(out), "{out}"), finished.stderr,
                       {path.name: path.read_bytes() for path in sorted(out.iterdir())}, read(driver), read(stats))


def measure(command: list, *flags: str, environment: dict[str, str], **more: object) -> Outcome:
    """run() for its times: up to five times, where the machine is slower than simgpu's model. Then the test is skipped,
    for neither a good nor a bad time of such a run means anything."""
    shares = []
    for _ in range(5):
        outcome = run(command, *flags, environment={**MEASURED, **environment}, **more)
        if outcome.returncode != 0 or outcome.in_time:
            return outcome
        shares.append(outcome.driver["overrun_share"])
    raise unittest.SkipTest("this machine was slower than simgpu's model in each of five runs, by "
                            f"{', '.join(f'{share:.1%}' for share in shares)} of its busy time")


def layers(n: int, mib: int, *more: str, passes: int = 4) -> list:
    """The command that runs `passes` over `n` layers of `mib` MiB and writes a digest of every buffer."""
    return [LAYERS, "--layers", n, "--layer-mib", mib, "--passes", passes, "--output", "{out}/digests", *more]


def schedules(n: int, policies: tuple[str, ...] = ("superpipeline", "superpipeline-paper")) -> list[tuple[str, ...]]:
    """The flags of every policy with every k from 1 to n and every k' from 1 to k-1."""
    flags: list[tuple[str, ...]] = [("--policy", "resident")]
    flags += [("--policy", "naive", "--k", str(k)) for k in range(1, n + 1)]
    for policy in policies:
        flags.append(("--policy", policy, "--k", "1"))
        flags += [("--policy", policy, "--k", str(k), "--k-prime", str(k_prime))
                  for k in range(2, n + 1) for k_prime in range(1, k)]
    return flags


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
