#!/usr/bin/env python3
"""Measures passes of PyTorch programs on simgpu under auto, against the windowed bound of the same run.

  bench/torch_pass_time.py [--build DIR] [--python PYTHON] [--budget PERCENT]... [--passes N] [--json FILE]

A token of two LLaMAs, one with many small layers and one with few large ones, and a training step of a GPT-2 with an Adam that updates
each parameter by itself, each small, over a link that is slow in proportion. A budget is a part of what the program takes without
superpipe. What a pass takes is modelled by simgpu, with driver calls that take as long as a driver's: what these took in the whole run, on
all threads, beyond a run without superpipe, is said as well. A run in which more than 1 % of the time for which the engines were busy was
lateness of the machine is marked invalid. Exit code 1 if a run is invalid, its result differs from that without superpipe, or a pass takes
more than 1.08 times the bound; 2 where there is no torch for simgpu (scripts/test --frameworks installs it).
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "frameworks"))
from simulated_torch import Build, Unfit, simulated_run, torch_version  # noqa: E402  (found through the path above)

GOAL = 1.08
MOST_OVERRUN = 0.01
MIB = 1 << 20
# Of the program: passes, and the link in GB/s each way. With them the link bounds a pass, and this machine keeps up.
DEFAULTS = {"decode": (10, 0.2), "decode-few-layers": (10, 0.2), "train": (5, 0.1)}
# Driver calls cost time and take locks, and device memory is as fast as this machine can go through it.
DEVICE = {"SIMGPU_CALL_COSTS": "on", "SIMGPU_DEVICE_GBPS": "2", "SIMGPU_COMPUTE_ENGINES": "2"}


def run(build: Build, python: Path, program: str, passes: int, link: float, budget: int | None) -> dict:
    """What simulated_run() answers, and under superpipe its statistics as "statistics"."""
    command = [python, "-B", ROOT / "bench" / "torch_programs.py", program, passes]
    with tempfile.TemporaryDirectory() as folder:
        statistics = Path(folder) / "statistics.json"
        flags = [] if budget is None else ["--gpu-mem", budget, "--stats", statistics]
        rates = {"SIMGPU_H2D_GBPS": str(link), "SIMGPU_D2H_GBPS": str(link)}
        answer = simulated_run(build, command, allocator="async", managed=budget is not None, flags=flags,
                               environment=DEVICE | rates, limit=600)
        if "error" in answer:
            raise RuntimeError(f"{program}: {answer['error']}: {answer.get('said')} {answer.get('output', '')[-500:]}")
        if budget is not None:
            answer["statistics"] = json.loads(statistics.read_text())
    return answer


def measure(build: Build, python: Path, program: str, options: argparse.Namespace) -> list[dict]:
    passes, link = options.passes or DEFAULTS[program][0], options.link or DEFAULTS[program][1]
    without = run(build, python, program, passes, link, None)
    rows = []
    for percent in options.budget:
        budget = without["peak_bytes"] * percent // 100
        answer = run(build, python, program, passes, link, budget)
        found = answer["statistics"]
        pass_ms, bound_ms = found["pass_ms"], found["windowed_bound_ms"]
        times = pass_ms / bound_ms if pass_ms and bound_ms else None
        row = {"program": program, "link_gbps": link, "percent": percent, "budget_bytes": budget, "passes": found["passes"], "pass_ms": pass_ms,
               "bound_ms": bound_ms, "times_bound": times, "overrun_share": answer["overrun_share"],
               "d2h_bytes": found["d2h_bytes"], "call_ms": answer["call_ms"] - without["call_ms"],
               "call_wait_ms": answer["call_wait_ms"] - without["call_wait_ms"], "same_output": answer["digest"] == without["digest"], "stall_ms": found["stall_ms"], "simulated": True}
        rows.append(row)
        ratio = "no pass was found" if times is None else f"{times:.3f} times the windowed bound of {bound_ms:.1f} ms"
        print(f"{program} with {percent} % ({budget / MIB:.0f} MiB): {ratio}, {found['passes']} passes, {found['d2h_bytes'] / MIB:.0f} MiB back, driver calls took "
              f"{row['call_ms']:.0f} ms more than without superpipe and waited {row['call_wait_ms']:.0f} ms for each other, overrun "
              f"{row['overrun_share']:.1%}, {'same output' if row['same_output'] else 'OTHER OUTPUT'}", flush=True)
    return rows


def failures(rows: list[dict]) -> list[str]:
    found = []
    for row in rows:
        name = f"{row['program']} with {row['percent']} %"
        if not row["same_output"]:
            found.append(f"{name}: another output than the run without superpipe")
        if row["overrun_share"] > MOST_OVERRUN:
            found.append(f"{name}: invalid, this machine was slower than simgpu's model by {row['overrun_share']:.1%} of its "
                         f"busy time, more than {MOST_OVERRUN:.0%}")
        if row["times_bound"] is None:
            found.append(f"{name}: superpipe found no pass")
        elif row["times_bound"] > GOAL:
            found.append(f"{name}: {row['times_bound']:.3f} times the bound, the goal is {GOAL}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("--python", type=Path, default=ROOT / "build" / "frameworks-venv" / "bin" / "python")
    parser.add_argument("--budget", type=int, action="append", metavar="PERCENT", help="default 50; may be given several times")
    parser.add_argument("--passes", type=int, help="tokens, or training steps; default 10, or 5")
    parser.add_argument("--link", type=float, metavar="GBPS", help="each way; default 0.2, or 0.1")
    parser.add_argument("--program", action="append", choices=sorted(DEFAULTS), help="default all")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    options.budget = options.budget or [50]
    build = Build(options.build)
    try:
        build.check()
        version, _ = torch_version(options.python)
    except Unfit as problem:
        print(f"torch_pass_time: {problem}", file=sys.stderr)
        return 2
    print(f"torch {version} on simgpu; times are modelled", flush=True)
    rows = [row for program in options.program or sorted(DEFAULTS) for row in measure(build, options.python, program, options)]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    found = failures(rows)
    for line in found:
        print(f"torch_pass_time: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
