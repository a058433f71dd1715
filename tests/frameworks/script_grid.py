"""The grid of scripts/test --frameworks=full: each script by each policy at each part of its peak.

Kept as JSON, cell by cell, so that a grid that was interrupted goes on with what was found; and
written as the Markdown of docs/frameworks-grid.md.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import script_runs

PACKAGES = {
    "torch": (
        "torch",
        "torchvision",
        "transformers",
        "timm",
        "diffusers",
        "peft",
        "accelerate",
        "torchao",
        "bitsandbytes",
    ),
    "jax": ("jax", "flax", "optax"),
    "tensorflow": ("tensorflow", "keras"),
    "onnx": ("onnxruntime-gpu", "onnx"),
}
NAMES = {"torch": "PyTorch", "jax": "JAX", "tensorflow": "TensorFlow", "onnx": "ONNX Runtime"}
BEGIN = """# Scripts by policy and budget

<!-- scripts/test --frameworks=full writes this page to build/frameworks-grid.md. -->

All of it is simulated: on simgpu, by `superpipe verify`. A script runs twice without superpipe and
once with each budget. "same" is the same bytes out of the device, the same output and the same exit
code. "refused" is a launch, or small allocations, that alone need more than the budget, with how
much they need; the program is told so. The budget is a part of the peak: 100, 50 and 25 %, in this
order, and, where auto refuses 25 %, the smallest with which it runs, to within 3 %. The policies
are `auto`, `lru` and `superpipeline` with the same budget (k). "not run" is what has not
been tried yet.
"""


def versions(python: Path, framework: str) -> dict[str, str]:
    """The versions of what the scripts of `framework` import, as far as it is there."""
    probe = (
        "import importlib.metadata as m, json\n"
        f"print(json.dumps({{d.metadata['Name']: d.version for d in m.distributions()"
        f" if d.metadata['Name'] in {PACKAGES[framework]}}}))"
    )
    ended = subprocess.run([str(python), "-c", probe], capture_output=True, text=True)
    return json.loads(ended.stdout) if ended.returncode == 0 else {}


class Grid:
    """What was found of each script, policy and percent."""

    def __init__(self, path: Path) -> None:
        """Begins with what `path` holds, if it is there."""
        self.path = path
        kept = json.loads(path.read_text()) if path.is_file() else {}
        self.versions: dict[str, dict[str, str]] = kept.get("versions", {})
        self.cells: dict[str, dict] = kept.get("cells", {})

    def add(
        self, script: script_runs.Script, policy: str, cells: dict[int, script_runs.Cell]
    ) -> None:
        """Keeps them in the file."""
        for percent, cell in cells.items():
            self.cells[f"{script.name} {policy} {percent}"] = {
                "framework": script.framework,
                "budget_mib": script.budget(percent),
                **asdict(cell),
            }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(
            json.dumps(
                {"simulated": True, "versions": self.versions, "cells": self.cells}, indent=1
            )
            + "\n"
        )

    def cell(self, script: script_runs.Script, policy: str, percent: int) -> dict | None:
        return self.cells.get(f"{script.name} {policy} {percent}")

    def percents(self, script: script_runs.Script) -> list[int]:
        """Those of the grid, and the smallest with which the script runs where that is known."""
        names = [name.split() for name in self.cells]
        found = {int(percent) for name, _, percent in names if name == script.name}
        return [*script_runs.PERCENTS, *sorted(found - set(script_runs.PERCENTS))]

    def lacks_smallest(self, script: script_runs.Script) -> tuple[int, int] | None:
        """A percent that auto refuses and the next that runs, where no smallest is known between."""
        found = {
            percent: self.cell(script, "auto", percent) for percent in self.percents(script)
        }
        refused = [percent for percent, cell in found.items() if cell and cell["outcome"] == "refused"]
        runs = [percent for percent, cell in found.items() if cell and cell["outcome"] == "same"]
        if not refused or not runs or min(runs) not in script_runs.PERCENTS:
            return None
        return max(refused), min(runs)

    def markdown(self) -> str:
        lines = [BEGIN]
        for framework, name in NAMES.items():
            scripts = [script for script in script_runs.RUNS if script.framework == framework]
            known = ", ".join(
                f"{package} {self.versions[framework][package]}"
                for package in PACKAGES[framework]
                if package in self.versions.get(framework, {})
            )
            lines += [
                f"## {name}",
                "",
                known or "Not run.",
                "",
                "| script | what it stands for | peak | auto | lru | k |",
                "|---|---|---|---|---|---|",
            ]
            lines += [self.row(script) for script in scripts] + [""]
            if reasons := [line for script in scripts for line in self.reasons(script)]:
                lines += ["Refused there:", "", *reasons, ""]
        return "\n".join(lines)

    def row(self, script: script_runs.Script) -> str:
        columns = []
        for policy in script_runs.POLICIES:
            found = [text_of(self.cell(script, policy, p)) for p in script_runs.PERCENTS]
            smallest = [
                f"{percent} %: {text_of(self.cell(script, policy, percent))}"
                for percent in self.percents(script)[len(script_runs.PERCENTS) :]
            ]
            columns.append(" · ".join(found + smallest))
        return (
            f"| {script.name} | {script.stands_for} | {script.peak} MiB | {' | '.join(columns)} |"
        )

    def reasons(self, script: script_runs.Script) -> list[str]:
        """A line that says which kernels need more than a budget, and what else is not the same."""
        found = {}
        for policy in script_runs.POLICIES:
            for percent in self.percents(script):
                cell = self.cell(script, policy, percent)
                if cell is None or cell["outcome"] == "same":
                    continue
                if cell["outcome"] == "refused":
                    found[f"{cell['detail']} for {cell['kernel']}"] = None
                else:
                    found[f"{policy}, {percent} %: {cell['outcome']}: {cell['detail'][:200]}"] = (
                        None
                    )
        return [f"- {script.name}: {'; '.join(found)}"] if found else []


def text_of(cell: dict | None) -> str:
    if cell is None:
        return "not run"
    if cell["outcome"] == "refused":
        return f"refused ({cell['detail']})"
    return cell["outcome"]
