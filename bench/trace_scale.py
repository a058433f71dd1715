#!/usr/bin/env python3
"""Measures superpipe's tools on large traces: time and memory of report, diff and plan.

  bench/trace_scale.py [--build DIR] [--events N] [--budgets N] [--json FILE]

The traces are those of a model that decodes token by token, once while half of it is on the device and its weights move, and once
with all of it resident. Times are those of one core: what the tool computed, however busy the machine is. Exit code 1 if a trace is
analysed in more than 5 s for 10 million events, budgets are planned in more than 60 s for 100, or a tool takes more than 1 GiB.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EVENTS, BUDGETS = 10_000_000, 100
MOST_ANALYSIS_S, MOST_PLANNING_S, MOST_BYTES = 5.0, 60.0, 1 << 30
# In MiB, from a little above what the largest launch needs to all of the model.
LEAST_BUDGET, MOST_BUDGET = 1024, 14500


def measure(command: list) -> tuple[float, int]:
    """The seconds that the command computed, on one core, and the most memory that it had, in bytes."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL,
                               preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"exit code {process.returncode} of {' '.join(str(word) for word in command)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def budgets(count: int) -> str:
    step = (MOST_BUDGET - LEAST_BUDGET) / max(count - 1, 1)
    return ",".join(f"{MOST_BUDGET - round(i * step)}M" for i in range(count))


def measure_all(build: Path, events: int, count: int) -> list[dict]:
    superpipe, rows = build / "bin" / "superpipe", []
    with tempfile.TemporaryDirectory() as folder:
        for shape in ("moving", "resident"):
            trace = Path(folder) / f"{shape}.sptrace"
            flags = ["resident"] if shape == "resident" else []
            subprocess.run([build / "bench" / "write_large_trace", trace, str(events), *flags], check=True)
            page = Path(folder) / "report.html"
            for tool, words, most in [("report", ["report", trace, "--no-plan", "-o", page], MOST_ANALYSIS_S),
                                      ("diff", ["diff", trace, trace], 2 * MOST_ANALYSIS_S),
                                      ("plan", ["plan", trace, "--gpu-mem", budgets(count)], MOST_PLANNING_S)]:
                seconds, peak = measure([superpipe, *words])
                # Smaller traces and fewer budgets are for a look: their goals are those of the whole.
                rows.append({"trace": shape, "tool": tool, "events": events, "budgets": count if tool == "plan" else 0,
                             "seconds": seconds, "most_seconds": most, "peak_bytes": peak, "trace_bytes": trace.stat().st_size})
                print(f"{tool} of {events} events, {shape}: {seconds:.2f} s (goal {most:.0f} s), {peak / (1 << 20):.0f} MiB", flush=True)
            trace.unlink()
    return rows


def failures(rows: list[dict]) -> list[str]:
    found = []
    for row in rows:
        name = f"{row['tool']} of {row['events']} events, {row['trace']}"
        if row["seconds"] > row["most_seconds"]:
            found.append(f"{name}: {row['seconds']:.2f} s, the goal is {row['most_seconds']:.0f} s")
        if row["peak_bytes"] > MOST_BYTES:
            found.append(f"{name}: {row['peak_bytes'] >> 20} MiB, the goal is {MOST_BYTES >> 20} MiB")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--budgets", type=int, default=BUDGETS)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    rows = measure_all(options.build, options.events, options.budgets)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    found = failures(rows)
    for line in found:
        print(f"trace_scale: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
