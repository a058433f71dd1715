#!/usr/bin/env python3
"""Makes a table, and a picture where matplotlib is installed, of what virtual_time wrote with --json.

Usage: publish.py FIGURES.json --table TABLE.md [--first] [--picture PICTURE.svg] [--workload NAME]

The table has one row for each workload and policy, and one column for each budget: how many times the windowed bound
(policy/windowed_bound.h) a pass takes, from the third on, or with --first the first pass its own bound. The picture
shows steady passes of one workload. All is computed in virtual time, and says so. Exit code 1: the figures cannot be read, or have none for the workload.
"""
import argparse
import json
import pathlib
import sys
from typing import Any

Row = dict[str, Any]


class Failure(Exception):
    """Something that the caller can mend."""


def read(path: pathlib.Path) -> list[Row]:
    try:
        rows = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise Failure(f"{path} cannot be read: {error}") from error
    whole = [row for row in rows if row["error"] is None]
    if not whole:
        raise Failure(f"{path} has no figures: run virtual_time --json {path}")
    return whole


def ratio(row: Row) -> float:
    return row["steady"]["pass_ms"] / row["windowed_bound_ms"]


def budgets_of(rows: list[Row]) -> list[float]:
    return sorted({row["budget_percent"] for row in rows})


def in_order(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


def first_ratio(row: Row) -> float:
    return row["first_pass_ms"] / row["first_pass_bound_ms"]


def table(rows: list[Row], first: bool) -> str:
    budgets = budgets_of(rows)
    lines = [
        "| program | policy | " + " | ".join(f"{budget:g} %" for budget in budgets) + " |",
        "|---" * (2 + len(budgets)) + "|",
    ]
    figure = first_ratio if first else ratio
    cells = {(row["workload"], row["policy"], row["budget_percent"]): f"{figure(row):.2f}" for row in rows}
    for workload in in_order([row["workload"] for row in rows]):
        for policy in in_order([row["policy"] for row in rows]):
            found = [cells.get((workload, policy, budget), "-") for budget in budgets]
            lines.append(f"| {workload} | {policy} | " + " | ".join(found) + " |")
    return "\n".join(lines) + "\n"


def draw(rows: list[Row], workload: str, path: pathlib.Path) -> None:
    try:
        import matplotlib.pyplot as plot
    except ImportError as error:
        raise Failure("a picture needs matplotlib: pip install matplotlib") from error
    mine = [row for row in rows if row["workload"] == workload]
    if not mine:
        raise Failure(f"there are no figures for {workload}")
    plot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "superpipe", "font.size": 10})
    figure, axes = plot.subplots(figsize=(8, 3.6), layout="constrained")
    for policy in in_order([row["policy"] for row in mine]):
        points = sorted((row["budget_percent"], ratio(row)) for row in mine if row["policy"] == policy)
        axes.plot(*zip(*points), marker="o", label=policy, linewidth=2.5 if policy == "auto" else 1.2)
    axes.axhline(1, color="grey", linewidth=0.8, linestyle="--")
    axes.set_yscale("log")
    axes.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    axes.minorticks_off()
    axes.set_xlabel("device memory, percent of what the program needs")
    axes.set_ylabel("pass time / bound")
    axes.set_title(f"{workload}: computed in virtual time, {mine[0]['link_gb_per_s']:g} GB/s each way", fontsize=10)
    axes.legend(frameon=False, ncols=2)
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path, required=True)
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--picture", type=pathlib.Path)
    parser.add_argument("--workload", default="llama-decode")
    arguments = parser.parse_args()
    try:
        rows = read(arguments.figures)
        arguments.table.write_text(table(rows, arguments.first))
        if arguments.picture:
            draw(rows, arguments.workload, arguments.picture)
    except (Failure, OSError) as error:
        print(f"publish.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
