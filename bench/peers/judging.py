"""What compare.py makes of its runs: bounds, whether memory was equal, which knob to try next, and
tables. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

MIB = 1 << 20
# A peak this far from the budget is as large as the budget: pools and pages grow in steps.
SLACK_SHARE = 0.02
SLACK_BYTES = 4 * MIB
MOST_OVERRUN = 0.01
MOST_TRIES = 5


def bound_ms(plain_ms: float, state: int, peak: int, link: float) -> float:
    """The least that a pass takes with a device of which `peak` bytes are taken, in ms.

    What `peak` bytes cannot hold of the `state` that outlives passes, even with nothing else there,
    crosses the link in each pass; and a pass takes no less than with everything on the device.
    Activations and workspaces are left out: what plain PyTorch has of them at its peak is not
    needed in each pass. `link`: bytes a second, each way.
    """
    missing = max(0, state - peak)
    return max(plain_ms, 1e3 * missing / link)


def budget_bytes(plain_peak: int, state: int, percent: int) -> int:
    """Device memory that holds `percent` of the state, and all else that the program has there."""
    return plain_peak - state * (100 - percent) // 100


def slack(budget: int) -> int:
    return max(SLACK_BYTES, int(budget * SLACK_SHARE))


def memory_verdict(peak: int, budget: int, step: int) -> str:
    """How a peak compares with the budget: "equal", "less" or "more". `step`: what the knob changes
    it by at least."""
    if peak > budget + slack(budget):
        return "more"
    return "less" if peak < budget - max(slack(budget), step) else "equal"


def next_knob(
    tried: dict[int, int], budget: int, step: int, layer: int, lowest: int, highest: int
) -> int | None:
    """The knob to try next, None if the best is among those tried.

    `tried`: peaks by knob. `step`: knob for one layer more; `layer`: bytes of one. The best one has
    the largest peak that is not "more" than the budget.
    """
    if len(tried) >= MOST_TRIES:
        return None
    fitting = [
        knob for knob, peak in tried.items() if memory_verdict(peak, budget, layer) != "more"
    ]
    if not fitting:
        least = min(tried)
        over = tried[least] - budget
        wanted = max(lowest, least - step * max(1, over // layer))
        return wanted if wanted not in tried else None
    best = max(fitting)
    room = budget + slack(budget) - tried[best]
    if room < layer or best >= highest:
        return None
    wanted = min(highest, best + step * max(1, room // (2 * layer)))
    too_large = min((knob for knob in tried if knob > best), default=None)
    if too_large is not None and wanted >= too_large:
        wanted = best + (too_large - best) // step // 2 * step
    return wanted if wanted > best else None


def best_knob(tried: dict[int, int], budget: int, layer: int) -> int:
    """The knob with the largest peak that is not "more" than the budget, else the one with the
    least peak."""
    fitting = [
        knob for knob, peak in tried.items() if memory_verdict(peak, budget, layer) != "more"
    ]
    return (
        max(fitting, key=lambda knob: (tried[knob], knob)) if fitting else min(tried, key=tried.get)
    )


@dataclass(frozen=True)
class Row:
    """One line of the table: a program under one peer with one budget, all its runs together."""

    model: str
    budget: str  # "75", "50", ...; "own": as much as it takes; "as NAME": as much as that one took
    peer: str
    name: str
    problem: str = ""
    runs: int = 0
    knob: str = ""
    pass_ms: float = 0.0
    peak_bytes: int = 0
    budget_bytes: int = 0
    memory: str = ""
    host_bytes: int = 0
    moved_bytes: tuple[int, int] = (0, 0)
    times_bound: float = 0.0
    lines_changed: int = 0
    output: str = ""  # "same", "other", or why it was not compared
    overrun: float = 0.0


def merged(figures: list[dict]) -> dict:
    """The runs of one cell as one: medians of times and bytes, the largest peaks."""
    return {
        "pass_ms": statistics.median(statistics.median(run["pass_ms"]) for run in figures),
        "peak_bytes": max(run["peak_bytes"] for run in figures),
        "host_bytes": max(run["host_bytes"] for run in figures),
        "moved_bytes": tuple(
            int(statistics.median(run["moved_bytes"][way] for run in figures)) for way in (0, 1)
        ),
        "overrun": max(run.get("overrun_share", 0.0) for run in figures),
    }


def output_verdict(
    figures: list[dict], reference: list[dict], steps_on_host: bool, simulated: bool
) -> str:
    """Whether the runs gave what plain PyTorch gave; "varies" where plain PyTorch does not repeat
    itself."""
    kind = "first_digest" if steps_on_host and simulated else "digest"
    wanted = {run[kind] for run in reference}
    if len(wanted) != 1:
        return "varies without it too"
    if any({run[kind]} != wanted for run in figures):
        return "other"
    return "same in the first forward pass" if kind == "first_digest" else "same"


def rival(rows: list[Row], row: Row) -> Row | None:
    """superpipe's auto with as much device memory as `row` had; None if there is none."""
    budget = f"as {row.peer}" if row.budget == "own" else row.budget
    for other in rows:
        if (other.model, other.budget, other.peer) == (
            row.model,
            budget,
            "superpipe-auto",
        ) and not other.problem:
            return other
    return None


def losses(rows: list[Row]) -> list[str]:
    """Where a peer was faster than superpipe's auto with the same memory, a line each."""
    found = []
    for row in rows:
        other = rival(rows, row)
        if row.problem or other is None or row.peer.startswith("superpipe") or row.peer == "plain":
            continue
        if row.pass_ms < other.pass_ms:
            found.append(
                f"{row.model}, {budget_words(row)}: {row.name} {row.pass_ms:.0f} ms, "
                f"superpipe {other.pass_ms:.0f} ms"
            )
    return found


def budget_words(row: Row) -> str:
    if row.budget == "all":
        return "everything"
    if row.budget == "own":
        return "what it takes"
    return row.budget if row.budget.startswith("as ") else f"{row.budget} %"


COLUMNS = (
    "program",
    "pass, ms",
    "x bound",
    "superpipe is faster by",
    "device, MiB",
    "of, MiB",
    "memory",
    "host, MiB",
    "in, MiB",
    "out, MiB",
    "lines",
    "output",
    "knob",
    "runs",
)


def cells_of(rows: list[Row], row: Row) -> list[str]:
    if row.problem:
        return [row.name, row.problem] + [""] * (len(COLUMNS) - 2)
    other = rival(rows, row)
    is_compared = other is not None and not row.peer.startswith("superpipe")
    late = "*" if row.overrun > MOST_OVERRUN else ""
    mib = lambda size: f"{size / MIB:.0f}"
    return [
        row.name,
        f"{row.pass_ms:.0f}{late}",
        f"{row.times_bound:.2f}",
        f"{row.pass_ms / other.pass_ms:.2f}" if is_compared else "",
        mib(row.peak_bytes),
        mib(row.budget_bytes) if row.budget_bytes else "",
        row.memory,
        mib(row.host_bytes),
        mib(row.moved_bytes[0]),
        mib(row.moved_bytes[1]),
        str(row.lines_changed),
        row.output,
        row.knob,
        str(row.runs),
    ]


def table(rows: list[Row], chosen: list[Row]) -> list[str]:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    return lines + ["| " + " | ".join(cells_of(rows, row)) + " |" for row in chosen]


def markdown(rows: list[Row], facts: list[str], simulated: bool) -> str:
    """The whole page: facts, then for each model and budget a table."""
    word = "simulated" if simulated else "measured"
    lines = [f"# superpipe beside what users would pick instead, {word}", "", *facts, ""]
    for model in dict.fromkeys(row.model for row in rows):
        of_model = [row for row in rows if row.model == model]
        lines += [f"## {model} ({word})", ""]
        for title, budgets in sections(of_model):
            lines += [
                title,
                "",
                *table(rows, [row for row in of_model if row.budget in budgets]),
                "",
            ]
    slower = losses(rows)
    lines += [
        f"## Where superpipe loses ({word})",
        "",
        *([f"- {line}" for line in slower] or ["Nowhere."]),
    ]
    return "\n".join(lines) + "\n"


def sections(rows: list[Row]) -> list[tuple[str, list[str]]]:
    percents = [budget for budget in dict.fromkeys(row.budget for row in rows) if budget.isdigit()]
    found = (
        [("Everything on the device:", ["all"])] if any(row.budget == "all" for row in rows) else []
    )
    found += [(f"With room for {percent} % of the weights:", [percent]) for percent in percents]
    own = [
        budget
        for budget in dict.fromkeys(row.budget for row in rows)
        if budget == "own" or budget.startswith("as ")
    ]
    return found + (
        [("Tools that take a budget of their own, and superpipe with the same:", own)]
        if own
        else []
    )


def compact(rows: list[Row]) -> list[str]:
    """A short table: of each model and budget the passes of superpipe's auto and of the fastest
    other tool."""
    lines = [
        "| model | device holds | superpipe, ms | x bound | fastest other | ms | slower by |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.peer != "superpipe-auto" or row.problem or not row.budget.isdigit():
            continue
        if row.memory == "more" or row.output == "other":
            continue
        others = [
            other
            for other in rows
            if (other.model, other.budget) == (row.model, row.budget)
            and not other.problem
            and not other.peer.startswith("superpipe")
            and other.memory != "more"
        ]
        if not others:
            continue
        best = min(others, key=lambda other: other.pass_ms)
        lines.append(
            f"| {row.model} | {row.budget} % | {row.pass_ms:.0f} | {row.times_bound:.2f} | "
            f"{best.name} | "
            f"{best.pass_ms:.0f} | {best.pass_ms / row.pass_ms:.2f} x |"
        )
    return lines
