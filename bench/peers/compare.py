#!/usr/bin/env python3
"""Runs models that do not fit the device with superpipe and with what users would pick instead, at
equal device memory.

  bench/peers/compare.py [--simulate] [--models NAME,...] [--budgets PERCENT,...]
                         [--peers NAME,...] [--runs N] [--json FILE] [--markdown FILE]

Each program is one process, so that its peaks are its own. A budget is what the device holds
besides activations and the context: 50 is room for half of the weights (in training: of weights,
gradients and moments). superpipe is given it by --gpu-mem, another tool by its own knob, which is
tried until its peak, as the device saw it, is the largest within the budget. A tool without a knob
takes what it takes, and superpipe is then run with as much.

Runs of all tools take turns, and figures are medians. With --json the runs are kept there after
each, and a command that is given the same file goes on where the last one ended. Without --simulate
the GPU is used; with it every figure is modelled by simgpu, and nothing is a measurement. Exit code
1 if a program failed or gave another output than plain PyTorch, 2 where nothing can be run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import judging  # noqa: E402  (found through the path above, as are all below)
import peers  # noqa: E402
from judging import MIB, Row  # noqa: E402
from programs import ALLOCATOR, DEVICE, SUPERPIPE, Bench, CannotRun  # noqa: E402

MODELS = ("llama-decode", "llama-prefill", "llama-training", "vit", "unet")
BUDGETS = (75, 50, 25)
FORMAT = 1


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def default_superpipe() -> Path:
    for path in (ROOT / "bin" / "superpipe", ROOT / "build" / "dev" / "bin" / "superpipe"):
        if path.is_file():
            return path
    found = shutil.which("superpipe")
    return Path(found) if found else ROOT / "build" / "dev" / "bin" / "superpipe"


def default_python() -> Path:
    named, venv = (
        os.environ.get("SUPERPIPE_TORCH_PYTHON"),
        ROOT / "build" / "frameworks-venv" / "bin" / "python3",
    )
    return Path(named) if named else venv if venv.exists() else Path(sys.executable)


def layer_state(model: str, peer: str, plain: dict) -> int:
    """Bytes on the device that come and go with a layer: a step of a knob."""
    layer = int(statistics.mean(plain["layer_bytes"]))
    if model != "llama-training":
        return layer
    return layer * (2 if peer == "hooks" else 4)  # the hooks' moments stay on the host


class Report:
    """All runs, kept in a file after each."""

    def __init__(self, file: Path | None, settings: dict) -> None:
        self.file, self.settings = file, settings
        self.cells: dict[str, list[dict]] = {}  # accepted runs by MODEL/BUDGET/PEER
        self.tries: dict[str, dict[str, dict]] = (
            {}
        )  # the same, by knob, for those whose knob is sought
        self.rows: list[dict] = []  # what was made of them, once all have run
        if file and file.is_file():
            before = json.loads(file.read_text())
            if before.get("settings") != settings:
                raise CannotRun(
                    f"{file} has runs with other settings; remove it, or name another file"
                )
            self.cells, self.tries = before["cells"], before["tries"]

    def write(self) -> None:
        if self.file:
            part = self.file.with_suffix(".part")
            part.write_text(
                json.dumps(
                    {
                        "format": FORMAT,
                        "settings": self.settings,
                        "rows": self.rows,
                        "cells": self.cells,
                        "tries": self.tries,
                    },
                    indent=1,
                )
                + "\n"
            )
            os.replace(part, self.file)

    def add(self, key: str, figures: dict) -> None:
        self.cells.setdefault(key, []).append(figures)
        self.write()


class Comparison:
    def __init__(self, bench: Bench, report: Report, options: argparse.Namespace) -> None:
        self.bench, self.report, self.options = bench, report, options

    def runs(self, key: str) -> list[dict]:
        return self.report.cells.get(key, [])

    def measure(
        self, key: str, round_number: int, knob: int = 0, flags: list | None = None
    ) -> list[dict]:
        """The runs of a cell, with one more if it has fewer than `round_number`."""
        model, _, peer = key.split("/")
        done = self.runs(key)
        if len(done) < round_number and not any(run["problem"] for run in done):
            figures = self.bench.run(model, peer, knob, flags or [])
            figures["knob"] = knob
            self.tell(key, figures)
            self.report.add(key, figures)
        return self.runs(key)

    def tell(self, key: str, figures: dict, remark: str = "") -> None:
        if figures["problem"]:
            say(f"  {key}: {figures['problem']}")
        else:
            late = f", overrun {figures['overrun_share']:.1%}" if "overrun_share" in figures else ""
            say(
                f"  {key}{remark}: {statistics.median(figures['pass_ms']):.0f} ms, "
                f"{figures['peak_bytes'] / MIB:.0f} MiB"
                f"{late} ({figures['seconds']:.0f} s)"
            )

    def fitted(self, key: str, budget: int, plain: dict, how: str, round_number: int) -> None:
        """Measures a cell whose knob has to be found first."""
        model, _, peer = key.split("/")
        layer = layer_state(model, peer, plain)
        count = len(plain["layer_bytes"])
        room = budget - (plain["peak_bytes"] - self.state(model, plain))
        step, lowest, highest = (
            (layer, 0, budget) if how == "bytes" else (1, 0 if peer == "fsdp" else 1, count)
        )
        guess = max(
            lowest,
            min(highest, room if how == "bytes" else room // layer - (2 if peer == "fsdp" else 0)),
        )
        tried = self.report.tries.setdefault(key, {})
        while not any(run["problem"] for run in tried.values()):
            peaks = self.peaks(tried)
            wanted = (
                judging.next_knob(peaks, budget, step, layer, lowest, highest) if peaks else guess
            )
            if wanted is None:
                break
            figures = self.bench.run(model, peer, wanted, self.flags(peer, wanted, budget))
            figures["knob"] = wanted
            self.tell(key, figures, f" knob {wanted}")
            tried[str(wanted)] = figures
            self.report.write()
        peaks = self.peaks(tried)
        if not peaks:
            if not self.runs(key):
                self.report.add(key, next(iter(tried.values())))
            return
        # A knob that did not work ends the search: the best of those that did counts.
        knob = judging.best_knob(peaks, budget, layer)
        broken = [f"{knob}: {run['problem']}" for knob, run in tried.items() if run["problem"]]
        if not self.runs(key):
            self.report.add(key, {**tried[str(knob)], "broken_knobs": broken})
        self.measure(key, round_number, knob, self.flags(peer, knob, budget))

    @staticmethod
    def peaks(tried: dict[str, dict]) -> dict[int, int]:
        return {int(knob): run["peak_bytes"] for knob, run in tried.items() if not run["problem"]}

    @staticmethod
    def flags(peer: str, knob: int, budget: int) -> list:
        if peer == "superpipe-k":
            return ["--k", knob]
        return ["--gpu-mem", budget]

    @staticmethod
    def state(model: str, plain: dict) -> int:
        """What outlives a pass: weights, in training gradients and both moments as well."""
        return plain["weights_bytes"] * (4 if model == "llama-training" else 1)

    def chosen(self, model: str) -> tuple[list[str], list[str]]:
        """Peers without a knob, and those with one."""
        training = model == "llama-training"
        names = [
            name
            for name, peer in peers.PEERS.items()
            if name != "plain" and name != ("fsdp" if training else "fsdp-training")
        ]
        wanted = (
            lambda name: not self.options.peers
            or name.removesuffix("-training") in self.options.peers
        )
        fit = [
            name
            for name in names
            if wanted(name)
            and not self.bench.missing(name)
            and (peers.PEERS[name].trains or not training)
        ]
        return [name for name in fit if not peers.PEERS[name].knob], [
            name for name in fit if peers.PEERS[name].knob
        ]

    def round(self, model: str, number: int) -> None:
        say(f"{model}, run {number} of {self.options.runs}")
        plain = self.measure(f"{model}/all/plain", number)[0]
        if plain["problem"]:
            return
        fixed, with_knob = self.chosen(model)
        for percent in self.options.budgets:
            budget = judging.budget_bytes(plain["peak_bytes"], self.state(model, plain), percent)
            self.measure(f"{model}/{percent}/superpipe-auto", number, flags=["--gpu-mem", budget])
            self.fitted(f"{model}/{percent}/superpipe-k", budget, plain, "layers", number)
            for name in with_knob:
                self.fitted(
                    f"{model}/{percent}/{name}", budget, plain, peers.PEERS[name].knob, number
                )
        for name in fixed:
            alone = self.measure(f"{model}/own/{name}", number)[0]
            if not alone["problem"]:
                self.measure(
                    f"{model}/as {name}/superpipe-auto",
                    number,
                    flags=["--gpu-mem", alone["peak_bytes"]],
                )

    def row(self, key: str) -> Row:
        model, budget, peer = key.split("/")
        runs, plain_runs = self.runs(key), self.runs(f"{model}/all/plain")
        plain, described = plain_runs[0], peers.PEERS.get(peer)
        name = described.name if described else SUPERPIPE[peer]
        if any(run["problem"] for run in runs):
            return Row(
                model, budget, peer, name, next(run["problem"] for run in runs if run["problem"])
            )
        figures, state = judging.merged(runs), self.state(model, plain)
        given = (
            judging.budget_bytes(plain["peak_bytes"], state, int(budget))
            if budget.isdigit()
            else (
                self.runs(f"{model}/own/{budget[3:]}")[0]["peak_bytes"]
                if budget.startswith("as ")
                else 0
            )
        )
        link = statistics.median(run["link_bytes_per_second"] for run in plain_runs)
        plain_ms = judging.merged(plain_runs)["pass_ms"]
        bound = judging.bound_ms(plain_ms, state, figures["peak_bytes"], link)
        knob = runs[0]["knob"]
        words = {
            "superpipe-k": f"k={knob}",
            "hooks": f"k={knob}, k'={max(1, knob // 2)}",
            "dispatch": f"max_memory {knob / MIB:.0f} MiB",
            "group-blocks": f"{knob} blocks a group",
            "fsdp": f"{knob} layers stay",
        }
        layer = layer_state(model, peer, plain)
        return Row(
            model,
            budget,
            peer,
            name,
            "",
            len(runs),
            words.get(peer, ""),
            figures["pass_ms"],
            figures["peak_bytes"],
            given,
            judging.memory_verdict(figures["peak_bytes"], given, layer) if given else "",
            figures["host_bytes"],
            figures["moved_bytes"],
            figures["pass_ms"] / bound,
            described.lines_changed() if described and peer != "plain" else 0,
            judging.output_verdict(
                runs, plain_runs, bool(described and described.steps_on_host), self.options.simulate
            ),
            figures["overrun"],
        )

    def rows(self) -> list[Row]:
        found = []
        for model in self.options.models:
            if not any(not run["problem"] for run in self.runs(f"{model}/all/plain")):
                if runs := self.runs(f"{model}/all/plain"):
                    found.append(
                        Row(model, "all", "plain", peers.PEERS["plain"].name, runs[0]["problem"])
                    )
                continue
            keys = [key for key in self.report.cells if key.startswith(f"{model}/")]
            found += [self.row(key) for key in keys]
            training = model == "llama-training"
            for name, peer in peers.PEERS.items():
                if training and not peer.trains and name != "fsdp":
                    found.append(
                        Row(model, "own", name, peer.name, f"cannot train: {peer.why_not}")
                    )
                elif why := self.bench.missing(name):
                    found.append(Row(model, "own", name, peer.name, why))
        return found


def facts(bench: Bench, options: argparse.Namespace, link: list[float]) -> list[str]:
    packages = ", ".join(f"{name} {version}" for name, version in bench.packages.items())
    lines = [
        f"Made by `bench/peers/compare.py{' --simulate' if options.simulate else ''} "
        f"--size {options.size} "
        f"--runs {options.runs} --passes {options.passes}` with {packages}."
    ]
    if options.simulate:
        settings = " ".join(f"{name}={value}" for name, value in options.device.items())
        lines += [
            "",
            f"**Simulated**: every time is modelled by simgpu, the same for all, with `{settings}` "
            f"and `PYTORCH_ALLOC_CONF={ALLOCATOR}`. A time with * is from a run in which more than "
            "1 % of the time for which "
            "the engines were busy was lateness of the machine.",
        ]
    if link:
        lines += [
            "",
            f"The link moves {statistics.median(link) / 1e9:.2f} GB/s from pinned memory, measured "
            "in the same runs. "
            "Its bound is that of `judging.py`, for the device memory that each row really took.",
        ]
    return lines


def listed(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [name for name in peers.PEERS if name not in ("plain", "fsdp-training")]
    parser.add_argument("--simulate", action="store_true", help="on simgpu; never implied")
    parser.add_argument(
        "--models", type=listed, default=list(MODELS), help=f"of {', '.join(MODELS)}; default all"
    )
    parser.add_argument(
        "--budgets",
        type=listed,
        default=[str(percent) for percent in BUDGETS],
        help=f"percent of the weights; default {','.join(map(str, BUDGETS))}",
    )
    parser.add_argument(
        "--peers", type=listed, default=[], help=f"of {', '.join(known)}; default all"
    )
    parser.add_argument("--runs", type=int, default=3, help="of each program; default 3")
    parser.add_argument(
        "--passes", type=int, default=3, help="timed ones of each run, behind two others; default 3"
    )
    parser.add_argument(
        "--size",
        choices=("tiny", "small", "large"),
        help="of the models; default large, with --simulate small",
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="one run of tiny models with one budget: to see that it works",
    )
    parser.add_argument(
        "--link",
        type=float,
        metavar="GBPS",
        help="with --simulate, of the link each way; default 0.1",
    )
    parser.add_argument(
        "--limit", type=float, default=300, metavar="SECONDS", help="of one program; default 300"
    )
    parser.add_argument("--superpipe", type=Path, default=default_superpipe(), help="the command")
    parser.add_argument(
        "--python",
        type=Path,
        default=default_python(),
        help="a Python that has torch and the peers",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep all runs there, and go on from there"
    )
    parser.add_argument(
        "--report-only",
        action="store_true",
        help="make the tables of what --json has, and run nothing",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there")
    options = parser.parse_args()
    for name, values, choices in (
        ("--models", options.models, MODELS),
        ("--peers", options.peers, known),
    ):
        if unknown := [value for value in values if value not in choices]:
            parser.error(
                f"{name}: there is no {', '.join(unknown)}; there are {', '.join(choices)}"
            )
    if not all(value.isdigit() and 0 < int(value) < 100 for value in options.budgets):
        parser.error("--budgets takes percentages above 0 and below 100, such as 75,50,25")
    if options.runs < 1 or options.passes < 1:
        parser.error("--runs and --passes take numbers from 1 on")
    if options.short:
        options.size, options.runs, options.budgets = (
            options.size or "tiny",
            1,
            options.budgets[1:2] or options.budgets,
        )
    options.budgets = [int(value) for value in options.budgets]
    options.size = options.size or ("small" if options.simulate else "large")
    options.device = dict(DEVICE) if options.simulate else {}
    if options.link and options.simulate:
        options.device |= {
            "SIMGPU_H2D_GBPS": str(options.link),
            "SIMGPU_D2H_GBPS": str(options.link),
        }
    options.superpipe = options.superpipe.absolute()
    options.python = options.python.absolute()
    return options


def main() -> int:
    options = parse()
    try:
        bench = Bench(options)
        settings = {
            "simulated": options.simulate,
            "device": options.device,
            "size": options.size,
            "passes": options.passes,
            "packages": bench.packages,
            "superpipe": bench.superpipe_build(),
        }
        report = Report(options.json, settings)
    except CannotRun as problem:
        say(f"compare: {problem}")
        return 2
    for name in [*peers.PEERS]:
        if why := bench.missing(name):
            say(f"{peers.PEERS[name].name}: {why}")
    comparison = Comparison(bench, report, options)
    for number in range(1, 1 if options.report_only else options.runs + 1):
        for model in options.models:
            comparison.round(model, number)
    rows = comparison.rows()
    report.rows = [dataclasses.asdict(row) for row in rows]
    report.write()
    link = [
        run["link_bytes_per_second"]
        for key, runs in report.cells.items()
        for run in runs
        if "link_bytes_per_second" in run and key.split("/")[0] in options.models
    ]
    page = judging.markdown(rows, facts(bench, options, link), options.simulate)
    if options.markdown:
        options.markdown.write_text(page)
    print(page)
    print("\n".join(judging.compact(rows)))
    failed = [row for row in rows if row.output == "other" or (row.problem and row.runs)]
    failed += [
        row
        for row in rows
        if row.problem and not row.problem.startswith(("not installed", "cannot train"))
    ]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
