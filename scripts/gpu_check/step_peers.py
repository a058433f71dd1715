"""Step peers: superpipe beside what users would pick instead, at equal device memory, by
bench/peers/compare.py."""

from __future__ import annotations

import json

from check import Context, StepSkipped
from layout import SCRIPTS
from step_torch import python_with_torch

COMPARE = SCRIPTS.parent / "bench" / "peers" / "compare.py"
# As many as a step has time for; compare.py by itself runs all of them.
MODELS, SHORT_MODELS = ("llama-decode", "llama-training", "unet"), ("llama-decode",)
BUDGET = 50
HOST_BYTES = 16 << 30  # the largest model twice, pinned and not, with Python and CUDA's libraries
PROGRAM_LIMIT_S = 150
NOT_INSTALLED = "not installed"


def compared(context: Context, python: str, model: str) -> dict:
    """The rows of one model. What has run is kept, so that --resume goes on within a model."""
    runs = context.folder.path / f"peers-{model}-runs.json"
    words = [
        python,
        "-B",
        COMPARE,
        "--models",
        model,
        "--budgets",
        BUDGET,
        "--runs",
        1,
        "--python",
        python,
        "--superpipe",
        context.layout.superpipe,
        "--limit",
        PROGRAM_LIMIT_S,
        "--json",
        runs,
    ]
    words += ["--simulate"] * context.simulated + ["--short"] * context.options.short
    finished = context.execute(words, context.environment(), context.time_left() + 1)
    try:
        found = json.loads(runs.read_text())
        rows = found["rows"]
    except (OSError, ValueError, KeyError):
        return {
            "problem": finished.problem or "compare.py wrote no rows",
            "said": finished.stderr.splitlines()[-5:],
        }
    return {"problem": judged(rows), "rows": rows, "settings": found["settings"]}


def judged(rows: list[dict]) -> str:
    """Why the comparison failed, empty if it did not: a peer that is not installed, cannot train or
    fails says nothing of superpipe."""
    ours = [row for row in rows if row["peer"].startswith("superpipe")]
    if not ours:
        return next((row["problem"] for row in rows if row["problem"]), "superpipe was not run")
    for row in ours:
        if row["problem"] or row["output"] == "other":
            why = row["problem"] or "other output than plain PyTorch"
            return f"{row['name']} at {row['budget']}: {why}"
    return ""


def run(context: Context) -> None:
    python, facts = python_with_torch(context)
    context.note(python=python, torch=facts)
    if not COMPARE.is_file():
        raise StepSkipped(f"{COMPARE.relative_to(SCRIPTS.parent)} is not in this package")
    if not context.simulated:
        if not facts["available"]:
            raise StepSkipped(f"torch {facts['torch']} (CUDA {facts['cuda']}) sees no GPU")
        context.need_host_memory(HOST_BYTES, "the peers with these models")
    cells = context.value["cells"]
    for model in SHORT_MODELS if context.options.short or context.simulated else MODELS:
        context.cell(f"{model}/{BUDGET}", lambda: compared(context, python, model))
    rows = [row for cell in cells.values() for row in cell.get("rows", [])]
    absent = sorted({row["name"] for row in rows if row["problem"].startswith(NOT_INSTALLED)})
    context.finish(
        f"{len(cells)} models{'; not installed: ' + ', '.join(absent) if absent else ''}"
    )
