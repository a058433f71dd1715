#!/usr/bin/env python3
"""Measures how near `superpipe plan` comes to runs on simgpu, for budgets other than the traced one.

  bench/plan_accuracy.py [--build DIR] [--python PYTHON] [--program NAME]... [--budget PERCENT]... [--passes N]
                         [--slow TIMES] [--json FILE]

Traces each program with all of it on the device, or training in 70 % of what it takes without superpipe, because only what leaves
the device tells what kernels write; predicts the pass and the peak for each budget, another such part, and runs there. Programs:
superpipe-layers (forward, train), and those of torch_programs.py (decode, torch-train), where there is a torch for simgpu
(scripts/test --frameworks installs it). What a pass takes is modelled by simgpu, with driver calls that take as long as a driver's;
a run in which more than 1 % of the time for which the engines were busy was lateness of the machine is repeated, and marked invalid
if it stays so. Exit code 1 if a prediction is off by more than 5 % of the pass or 2 % of the peak, or a run stays invalid.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "frameworks"))
from simulated_torch import ALLOCATORS, Build, Unfit, torch_version  # noqa: E402  (found through the path above)

MIB = 1 << 20
# As by default on a device. What `--simulate` sets is for small examples: each small tensor then waits until a buffer has left.
HEADROOM = 64 * MIB
ATTEMPTS = 3
MOST_OVERRUN, MOST_PASS_ERROR, MOST_PEAK_ERROR = 0.01, 0.05, 0.02


@dataclass(frozen=True)
class Program:
    """What is traced and run. The link is slow, so that it bounds a pass and this machine keeps up. But a piece takes a small part of a pass,
    for else a pass is not like the one before, and less than 0.1 s, after which superpipe takes a transfer to be stuck and asks for more."""

    words: tuple
    passes: int
    link: float  # GB/s, each way
    memory: float  # GB/s of the device
    layers: int = 0  # of superpipe-layers; 0: PyTorch's
    compute_us: int = 0  # of a layer; PyTorch's kernels take what their bytes do
    traced_percent: int | None = None  # the budget of the traced run; None: all

    @property
    def is_torch(self) -> bool:
        return self.layers == 0


PROGRAMS = {
    "forward": Program(("forward",), 10, 0.05, 3, 32, 20_000),
    "train": Program(("train",), 8, 0.05, 3, 16, 40_000, 70),
    "decode": Program(("decode",), 10, 0.2, 2),
    "torch-train": Program(("train",), 10, 0.1, 2, traced_percent=70),
}


class Bench:
    def __init__(self, build: Build, options: argparse.Namespace, folder: Path) -> None:
        self.build, self.python, self.passes, self.slow, self.folder = build, options.python, options.passes, options.slow, folder

    def command(self, program: Program) -> list:
        passes = self.passes or program.passes
        if program.is_torch:
            return [self.python, "-B", ROOT / "bench" / "torch_programs.py", *program.words, passes]
        return [self.build.folder / "bin" / "superpipe-layers", "--layers", program.layers, "--layer-mib", 8, "--passes", passes, "--json",
                "--mode", *program.words, "--compute-us", program.compute_us * self.slow]

    def run(self, program: Program, flags: list, without_superpipe: bool = False) -> dict:
        """What simgpu counted, as "driver", and the time of a steady pass, as "pass_ms"; the passes of PyTorch's programs are found in the
        trace of the run."""
        driver, trace = self.folder / "simgpu.json", self.folder / "measured.sptrace"
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(("SUPERPIPE_", "SIMGPU_")) or name == "SUPERPIPE_SHARED_FOLDER"}
        link = str(program.link / self.slow)
        variables = {**inherited, "SIMGPU_CALL_COSTS": "on", "SIMGPU_H2D_GBPS": link, "SIMGPU_D2H_GBPS": link,
                     "SIMGPU_DEVICE_GBPS": str(program.memory / self.slow), "SIMGPU_STATS": str(driver)}
        if program.is_torch:
            variables |= {"PYTORCH_ALLOC_CONF": ALLOCATORS["async"], "SIMGPU_COMPUTE_ENGINES": "2",
                          "SUPERPIPE_HEADROOM": f"{HEADROOM // MIB}M"}
        if without_superpipe:
            variables["SUPERPIPE_OFF"] = "1"
        else:
            flags = [*flags, *(["--trace", trace] if program.is_torch and "--trace" not in flags else [])]
        words = [self.build.command, "run", "--simulate", *flags, "--", *self.command(program)]
        for _ in range(ATTEMPTS):
            finished = subprocess.run([str(word) for word in words], env=variables, capture_output=True, text=True, timeout=3600)
            if finished.returncode != 0:
                raise RuntimeError(f"{' '.join(map(str, words))}: exit code {finished.returncode}\n{finished.stderr[-2000:]}")
            answer = {"driver": json.loads(driver.read_text())}
            if answer["driver"]["overrun_share"] <= MOST_OVERRUN:
                break
        if program.is_torch and trace in flags:
            answer["pass_ms"] = self.plan(trace, program, 0)["accuracy"]["measured_pass_ms"]
        elif not program.is_torch:
            # Loading is over, and the order known, from the third pass on.
            answer["pass_ms"] = statistics.fmean(json.loads(finished.stdout)["pass_ms"][2:])
        return answer

    def plan(self, trace: Path, program: Program, budget: int) -> dict:
        """What `superpipe plan` says of the trace; without a budget of what it took."""
        flags = ["--gpu-mem", budget] if budget else []
        words = [self.build.command, "plan", trace, "--json", *flags, "--link", program.link / self.slow]
        finished = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300)
        return json.loads(finished.stdout)

    def predict(self, trace: Path, program: Program, budget: int) -> dict:
        said = self.plan(trace, program, budget)["plans"][0]
        if not said["runs"]:
            raise RuntimeError(f"plan with {budget}: {said['problem']}")
        return said

    def measure(self, name: str, percents: list[int]) -> list[dict]:
        program, rows = PROGRAMS[name], []
        needed = self.run(program, [], without_superpipe=True)["driver"]["peak_bytes"]
        trace = self.folder / f"{name}.sptrace"
        flags = [] if program.traced_percent is None else ["--gpu-mem", needed * program.traced_percent // 100]
        traced = self.run(program, ["--trace", trace, *flags])
        for percent in percents:
            budget = needed * percent // 100
            predicted = self.predict(trace, program, budget)
            found = self.run(program, ["--gpu-mem", budget])
            row = {"program": name, "link_gbps": program.link / self.slow, "percent": percent, "budget_bytes": budget,
                   "predicted_pass_ms": predicted["pass_ms"], "measured_pass_ms": found["pass_ms"],
                   "predicted_peak_bytes": predicted["peak_device_bytes"], "measured_peak_bytes": found["driver"]["peak_bytes"],
                   "predicted_h2d_bytes": predicted["h2d_bytes"], "overrun_share": found["driver"]["overrun_share"],
                   "traced_overrun_share": traced["driver"]["overrun_share"], "simulated": True}
            row["pass_error"] = row["predicted_pass_ms"] / row["measured_pass_ms"] - 1
            row["peak_error"] = row["predicted_peak_bytes"] / row["measured_peak_bytes"] - 1
            rows.append(row)
            print(f"{name} with {percent} % ({budget / MIB:.0f} MiB): pass {row['predicted_pass_ms']:.1f} ms predicted, "
                  f"{row['measured_pass_ms']:.1f} ms measured ({row['pass_error']:+.1%}); peak "
                  f"{row['predicted_peak_bytes'] / MIB:.1f} MiB, {row['measured_peak_bytes'] / MIB:.1f} MiB ({row['peak_error']:+.1%}); "
                  f"overrun {row['overrun_share']:.1%}, of the trace {row['traced_overrun_share']:.1%}", flush=True)
        return rows


def failures(rows: list[dict]) -> list[str]:
    found = []
    for row in rows:
        name = f"{row['program']} with {row['percent']} %"
        if max(row["overrun_share"], row["traced_overrun_share"]) > MOST_OVERRUN:
            found.append(f"{name}: invalid, this machine was slower than simgpu's model by more than {MOST_OVERRUN:.0%} of its busy time")
        if abs(row["pass_error"]) > MOST_PASS_ERROR:
            found.append(f"{name}: the pass is off by {row['pass_error']:+.1%}, at most {MOST_PASS_ERROR:.0%} are allowed")
        if abs(row["peak_error"]) > MOST_PEAK_ERROR:
            found.append(f"{name}: the peak is off by {row['peak_error']:+.1%}, at most {MOST_PEAK_ERROR:.0%} are allowed")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("--python", type=Path, default=ROOT / "build" / "frameworks-venv" / "bin" / "python")
    parser.add_argument("--program", action="append", choices=sorted(PROGRAMS), help="default all that can run here")
    parser.add_argument("--budget", type=int, action="append", metavar="PERCENT", help="default 40, 60 and 80")
    parser.add_argument("--passes", type=int)
    parser.add_argument("--slow", type=int, default=1, metavar="TIMES",
                        help="as many times slower a link, kernels and memory, for a machine that does not keep up: a piece of 2 MiB "
                             "and more shall still cross the link in less than 0.1 s; default 1")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    names = options.program or list(PROGRAMS)
    build = Build(options.build)
    try:
        build.check()
        if any(PROGRAMS[name].is_torch for name in names):
            torch_version(options.python)
    except Unfit as problem:
        if options.program:
            print(f"plan_accuracy: {problem}", file=sys.stderr)
            return 2
        print(f"plan_accuracy: without PyTorch's programs: {problem}", file=sys.stderr)
        names = [name for name in names if not PROGRAMS[name].is_torch]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(build, options, Path(folder))
        rows = [row for name in names for row in bench.measure(name, options.budget or [40, 60, 80])]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    found = failures(rows)
    for line in found:
        print(f"plan_accuracy: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
