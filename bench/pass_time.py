#!/usr/bin/env python3
"""Measures pass times and device memory on simgpu, and compares them with what they are held against.

  bench/pass_time.py [--build DIR] [--output DIR] [--quick] [--slow TIMES]

Writes pass_time.md and pass_time.json. Every time is modelled by simgpu (events on its timeline), with driver calls that take
as long as a driver's: "calls" is what these took in the whole run, on all threads, beyond a run without superpipe, and "waits" for how
long they waited for each other's locks. A run in which more than 1 % of the time for which the engines were busy was lateness of the machine
(overrun_share) is repeated, and marked invalid if it stays so. Exit code 1 if a run is invalid, a result differs from the run
without superpipe, or a goal is missed.
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
MIB = 1 << 20
ATTEMPTS = 3
MOST_OVERRUN = 0.01
# Of every run here: driver calls cost time and take locks, and device memory is as fast as this machine can fill it.
DEVICE = {"SIMGPU_CALL_COSTS": "on", "SIMGPU_DEVICE_GBPS": "6"}


@dataclass(frozen=True)
class Measured:
    """One run of superpipe-layers."""

    pass_ms: list[float]
    wall_ms: float
    digest: str
    driver: dict
    stats: dict

    @property
    def steady_ms(self) -> float:
        """The median pass of the second half: the first passes load, and learn the order."""
        return statistics.median(self.pass_ms[len(self.pass_ms) // 2:])

    @property
    def overrun(self) -> float:
        """The share of the engines' busy time by which the machine was slower than the model."""
        return self.driver["overrun_share"]

    def calls_beyond(self, without: "Measured") -> dict:
        """What driver calls took more than in a run without superpipe, in ms."""
        return {name: self.driver[name] - without.driver[name] for name in ("call_ms", "call_wait_ms")}


class Bench:
    def __init__(self, build: Path) -> None:
        self.build = build

    def start(self, command: list, flags: list, environment: dict, without_superpipe: bool = False) -> tuple[str, dict, dict]:
        with tempfile.TemporaryDirectory() as folder:
            stats, driver = Path(folder) / "stats.json", Path(folder) / "simgpu.json"
            inherited = {name: value for name, value in os.environ.items()
                         if not name.startswith(("SUPERPIPE_", "SIMGPU_")) or name == "SUPERPIPE_SHARED_FOLDER"}
            variables = {**inherited, **DEVICE, **environment, "SIMGPU_STATS": str(driver),
                         **({"SUPERPIPE_OFF": "1"} if without_superpipe else {"SUPERPIPE_STATS": str(stats)})}
            words = [self.build / "bin" / "superpipe", "run", "--simulate", *flags, "--", *command]
            finished = subprocess.run([str(word) for word in words], env=variables, capture_output=True, text=True,
                                      timeout=300)
            if finished.returncode != 0:
                raise RuntimeError(f"{' '.join(map(str, words))}: exit code {finished.returncode}\n{finished.stderr}")
            read = lambda path: json.loads(path.read_text()) if path.is_file() else {}
            return finished.stdout, read(driver), read(stats)

    def layers(self, n: int, mib: int, passes: int, flags: list, environment: dict, *more: object,
               without_superpipe: bool = False) -> Measured:
        command = [self.build / "bin" / "superpipe-layers", "--layers", n, "--layer-mib", mib, "--passes", passes,
                   "--json", *more]
        for _ in range(ATTEMPTS):
            printed, driver, stats = self.start(command, flags, environment, without_superpipe)
            result = json.loads(printed)
            measured = Measured(result["pass_ms"], result["wall_ms"], result["digest"], driver, stats)
            if measured.overrun <= MOST_OVERRUN:
                break
        return measured


    def planned_bounds_ms(self, n: int, mib: int, passes: int, gbps: float, budgets: list[int], environment: dict, *more: object) -> list[float]:
        """The windowed bound for each budget, by how long each launch takes in a run with everything on the device."""
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "resident.sptrace"
            self.start([self.build / "bin" / "superpipe-layers", "--layers", n, "--layer-mib", mib, "--passes", passes, *more],
                       ["--trace", trace], environment)
            words = [self.build / "bin" / "superpipe", "plan", trace, "--gpu-mem", ",".join(map(str, budgets)), "--link", gbps, "--json"]
            finished = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300)
            if finished.returncode != 0:
                raise RuntimeError(f"{' '.join(map(str, words))}: exit code {finished.returncode}\n{finished.stderr}")
            return [plan["windowed_bound_ms"] for plan in json.loads(finished.stdout)["plans"]]


def schedule_of(row: dict) -> str:
    return f"{row['policy']} k={row['k']}" + (f" k'={row['k_prime']}" if row["k_prime"] else "")


def link_bound(bench: Bench, quick: bool) -> dict:
    """Passes that a slow link bounds, under each policy, against the sliding-window bound."""
    n, mib, gbps, passes = 16, 8, 0.25, 5 if quick else 10
    environment = {"SIMGPU_H2D_GBPS": str(gbps), "SIMGPU_D2H_GBPS": str(gbps)}
    # An eighth of a layer's transfer, and enough for the machine to compute the layer's kernels in that time.
    compute_us = 4000
    bound_ms = n * mib * MIB / (gbps * 1e9) * 1e3
    without = bench.layers(n, mib, passes, [], environment, "--compute-us", compute_us, without_superpipe=True)
    rows = []
    for policy, k, k_prime in [("superpipeline", 2, None), ("superpipeline", 4, None),
                               ("superpipeline", 8, None), ("naive", 4, None), ("naive", 8, None),
                               ("superpipeline-paper", 4, 2), ("superpipeline-paper", 8, 2),
                               ("superpipeline-paper", 8, 4), ("superpipeline-paper", 8, 6)]:
        flags = ["--policy", policy, "--k", k, *(["--k-prime", k_prime] if k_prime else [])]
        run = bench.layers(n, mib, passes, flags, environment, "--compute-us", compute_us)
        rows.append({"policy": policy, "k": k, "k_prime": k_prime, "pass_ms": run.steady_ms,
                     "times_bound": run.steady_ms / bound_ms, "overrun": run.overrun, "goal": 1.15 if policy == "superpipeline" else None,
                     "same_output": run.digest == without.digest, "peak_bytes": run.driver["peak_bytes"],
                     "stall_ms": run.stats["stall_ms"], "d2h_bytes": run.stats["d2h_bytes"], **run.calls_beyond(without)})
        print(f"  {schedule_of(rows[-1])}: {rows[-1]['times_bound']:.3f} times the bound", file=sys.stderr)
    return {"layers": n, "layer_mib": mib, "link_gbps": gbps, "compute_us": compute_us, "passes": passes,
            "bound_ms": bound_ms, "all_resident_pass_ms": without.steady_ms, "rows": rows}


def auto_by_budget(bench: Bench, quick: bool, slow: int) -> dict:
    """Passes under auto with parts of what the program takes, against the windowed bound."""
    n, mib, gbps, passes, goal = 16, 8, 0.1 / slow, 5 if quick else 8, 1.10
    environment = {"SIMGPU_H2D_GBPS": str(gbps), "SIMGPU_D2H_GBPS": str(gbps), "SIMGPU_DEVICE_GBPS": str(6 / slow)}
    rows = []
    # As long as this machine takes to compute a layer's kernels while it copies.
    for mode, compute_us in (("forward", 20_000 * slow), ("train", 40_000 * slow)):
        options = ["--mode", mode, "--compute-us", compute_us]
        without = bench.layers(n, mib, passes, [], environment, *options, without_superpipe=True)
        percents = (50,) if quick else (30, 50, 70, 90)
        budgets = [without.driver["peak_bytes"] * percent // 100 for percent in percents]
        bounds_ms = bench.planned_bounds_ms(n, mib, passes, gbps, budgets, environment, *options)
        for percent, budget, planned_bound_ms in zip(percents, budgets, bounds_ms):
            run = bench.layers(n, mib, passes, ["--gpu-mem", budget], environment, *options)
            if run.stats["windowed_bound_ms"] is None:
                raise RuntimeError(f"{mode} with {percent} %: superpipe found no pass")
            bound_ms = max(run.stats["windowed_bound_ms"], planned_bound_ms)
            # Loading is over, and the order known, from the third pass on.
            steady_ms = statistics.fmean(run.pass_ms[2:])
            rows.append({"mode": mode, "compute_us": compute_us, "percent": percent, "budget_bytes": budget, "pass_ms": steady_ms, "bound_ms": bound_ms,
                         "times_bound": steady_ms / bound_ms, "overrun": run.overrun, "goal": goal,
                         "same_output": run.digest == without.digest, "peak_bytes": run.driver["peak_bytes"],
                         "h2d_bytes": run.stats["h2d_bytes"], "d2h_bytes": run.stats["d2h_bytes"], **run.calls_beyond(without)})
            print(f"  {mode} with {percent} %: {rows[-1]['times_bound']:.3f} times the windowed bound", file=sys.stderr)
    return {"layers": n, "layer_mib": mib, "link_gbps": gbps, "passes": passes, "rows": rows}


def everything_fits(bench: Bench, quick: bool) -> dict:
    """Pass time with superpipe and nothing to move, against without it; the two take turns."""
    n, mib, passes, rounds = 16, 2, 20 if quick else 40, 3 if quick else 7
    times: dict[str, dict[str, list[float]]] = {name: {"pass": [], "wall": []} for name in ("with", "without")}
    moved, same, overrun = 0, True, 0.0
    for turn in range(rounds):
        digests = []
        for name in ("with", "without") if turn % 2 == 0 else ("without", "with"):
            run = bench.layers(n, mib, passes, [], {}, "--compute-us", 2000, without_superpipe=name == "without")
            times[name]["pass"].append(run.steady_ms)
            times[name]["wall"].append(run.wall_ms / passes)
            digests.append(run.digest)
            overrun = max(overrun, run.overrun)
            if run.stats:
                moved += run.stats["h2d_bytes"] + run.stats["d2h_bytes"] + run.stats["evictions"]
        same = same and digests[0] == digests[1]
    middle = {name: {kind: statistics.median(values) for kind, values in both.items()} for name, both in times.items()}
    ratio = {kind: middle["with"][kind] / middle["without"][kind] for kind in ("pass", "wall")}
    print(f"  pass {ratio['pass']:.4f}, wall {ratio['wall']:.4f}", file=sys.stderr)
    return {"layers": n, "layer_mib": mib, "passes": passes, "rounds": rounds, "pass_ms": middle, "ratio": ratio,
            "moved": moved, "same_output": same, "overrun": overrun, "goal": 1.02}


def peaks(bench: Bench) -> list[dict]:
    """The driver's own peak with few layers on the device, against the run without superpipe."""
    weights = ROOT / ".deps" / "minilm"
    fast = {"SIMGPU_H2D_GBPS": "100", "SIMGPU_D2H_GBPS": "100"}
    minilm = [bench.build / "bin" / "superpipe-minilm", "--model", weights, "--repeat", 4, "a sentence", "another one"]
    layers = [bench.build / "bin" / "superpipe-layers", "--layers", 32, "--layer-mib", 16, "--passes", 3]
    rows = []
    for name, command, k, goal in [("minilm, 6 layers", minilm, 2, 0.5),
                                   ("layers, 32 of 16 MiB", layers, 4, 0.8)]:
        if command is minilm and not (weights / "model.safetensors").is_file():
            raise RuntimeError("no weights: run scripts/fetch_minilm")
        _, plain, _ = bench.start(command, [], fast, without_superpipe=True)
        _, managed, _ = bench.start(command, ["--k", k], fast)
        rows.append({"name": name, "k": k, "without_bytes": plain["peak_bytes"],
                     "peak_bytes": managed["peak_bytes"], "less": 1 - managed["peak_bytes"] / plain["peak_bytes"],
                     "goal": goal})
        print(f"  {name}: {rows[-1]['less']:.1%} less", file=sys.stderr)
    return rows


def too_slow(overrun: float) -> str:
    return f"invalid, this machine was slower than simgpu's model by {overrun:.1%} of its busy time, more than {MOST_OVERRUN:.0%}"


def failures(report: dict) -> list[str]:
    found = []
    named = [(f"link-bound {schedule_of(row)}", row) for row in report["link_bound"]["rows"]]
    named += [(f"auto, {row['mode']} with {row['percent']} %", row) for row in report["auto"]["rows"]]
    for name, row in named:
        if not row["same_output"]:
            found.append(f"{name}: another output than the run without superpipe")
        if row["overrun"] > MOST_OVERRUN:
            found.append(f"{name}: {too_slow(row['overrun'])}")
        if row["goal"] and row["times_bound"] > row["goal"]:
            found.append(f"{name}: {row['times_bound']:.3f} times the bound, the goal is {row['goal']}")
    fits = report["everything_fits"]
    if fits["moved"] != 0 or not fits["same_output"]:
        found.append("everything fits: something was moved, or the output differs")
    if fits["overrun"] > MOST_OVERRUN:
        found.append(f"everything fits: {too_slow(fits['overrun'])}")
    for kind, ratio in fits["ratio"].items():
        if ratio > fits["goal"]:
            found.append(f"everything fits: {kind} time {ratio:.3f} times without superpipe, the goal is {fits['goal']}")
    found += [f"{row['name']}: {row['less']:.1%} less, the goal is {row['goal']:.0%}" for row in report["peaks"]
              if row["less"] < row["goal"]]
    return found


def markdown(report: dict) -> str:
    link, fits = report["link_bound"], report["everything_fits"]
    lines = ["# Pass times and device memory, simulated", "",
             "Times are modelled by simgpu, not measured on a GPU. Command: `bench/pass_time.py`. *Calls* is what driver calls took in the "
             "whole run, on all threads, beyond a run without superpipe; *waits*, for how long they waited for each other's locks.", "",
             f"## A slow link: {link['layers']} layers of {link['layer_mib']} MiB, {link['link_gbps']} GB/s each way", "",
             f"The sliding-window bound, streaming every layer in every pass, is {link['bound_ms']:.1f} ms; a pass with "
             f"everything on the device takes {link['all_resident_pass_ms']:.1f} ms.", "",
             "| policy | k | k' | pass, ms | times the bound | goal | peak, MiB | calls, ms | waits, ms | same output |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for row in link["rows"]:
        lines.append(f"| {row['policy']} | {row['k']} | {row['k_prime'] or ''} | {row['pass_ms']:.1f} | "
                     f"{row['times_bound']:.3f} | {row['goal'] or ''} | {row['peak_bytes'] / MIB:.1f} | "
                     f"{row['call_ms']:.1f} | {row['call_wait_ms']:.1f} | "
                     f"{'yes' if row['same_output'] else 'NO'} |")
    auto = report["auto"]
    lines += ["", f"## A slow link under auto: {auto['layers']} layers of {auto['layer_mib']} MiB, {auto['link_gbps']} GB/s each way, mean "
              "pass from the third on", "",
              "A budget is a part of what the program takes without superpipe. The bound is the higher of two windowed ones: that of the "
              "run's own statistics, which know what room was left but not how long each launch takes, and that of `superpipe plan`, "
              "which knows that from a run with everything on the device.", "",
              "| mode | budget | pass, ms | windowed bound, ms | times the bound | goal | peak, MiB | moved in, MiB | back, MiB | calls, ms | waits, ms "
              "| same output |",
              "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in auto["rows"]:
        lines.append(f"| {row['mode']} | {row['percent']} % | {row['pass_ms']:.1f} | {row['bound_ms']:.1f} | {row['times_bound']:.3f} | "
                     f"{row['goal']} | {row['peak_bytes'] / MIB:.1f} | {row['h2d_bytes'] / MIB:.0f} | {row['d2h_bytes'] / MIB:.0f} | "
                     f"{row['call_ms']:.1f} | {row['call_wait_ms']:.1f} | "
                     f"{'yes' if row['same_output'] else 'NO'} |")
    lines += ["", f"## Everything fits: {fits['layers']} layers of {fits['layer_mib']} MiB, "
              f"{fits['rounds']} runs of each in turn", "",
              "| | with superpipe, ms | without, ms | ratio | goal |", "|---|---|---|---|---|"]
    for kind, title in (("pass", "pass on the device's timeline"), ("wall", "pass on the host's clock")):
        lines.append(f"| {title} | {fits['pass_ms']['with'][kind]:.3f} | {fits['pass_ms']['without'][kind]:.3f} | "
                     f"{fits['ratio'][kind]:.4f} | {fits['goal']} |")
    lines += ["", "## Peak device memory, counted by the driver", "",
              "| program | k | without, MiB | with, MiB | less | goal |", "|---|---|---|---|---|---|"]
    for row in report["peaks"]:
        lines.append(f"| {row['name']} | {row['k']} | {row['without_bytes'] / MIB:.1f} | "
                     f"{row['peak_bytes'] / MIB:.1f} | {row['less']:.1%} | {row['goal']:.0%} |")
    lines += ["", "Goals missed or runs invalid: " + ("none." if not report["failures"] else ""), ""]
    lines += [f"- {failure}" for failure in report["failures"]]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--output", type=Path, help="folder for the tables (default: BUILD/bench)")
    parser.add_argument("--slow", type=int, default=1, help="as many times slower a link, kernels and memory in the rows of auto, for a "
                        "machine that does not keep up; default 1")
    parser.add_argument("--quick", action="store_true", help="fewer passes: to see that it works")
    options = parser.parse_args()
    bench = Bench(options.build.resolve())
    output = options.output or options.build / "bench"
    output.mkdir(parents=True, exist_ok=True)
    print("link-bound:", file=sys.stderr)
    report: dict = {"simulated": True, "link_bound": link_bound(bench, options.quick)}
    print("auto:", file=sys.stderr)
    report["auto"] = auto_by_budget(bench, options.quick, options.slow)
    print("everything fits:", file=sys.stderr)
    report["everything_fits"] = everything_fits(bench, options.quick)
    print("peaks:", file=sys.stderr)
    report["peaks"] = peaks(bench)
    report["failures"] = failures(report)
    (output / "pass_time.json").write_text(json.dumps(report, indent=2) + "\n")
    (output / "pass_time.md").write_text(markdown(report))
    print(markdown(report))
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
