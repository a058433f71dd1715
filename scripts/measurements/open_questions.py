"""Which questions of docs/measurements/OPEN.md a folder of results answers, and the list without them."""

from __future__ import annotations

import re

ANSWERED = ("answered", "not_supported")  # outcomes of a doctor's probe that settle its question
FRAMEWORK_CELLS = [f"{script}/{percent}" for script in ("inference", "training") for percent in (100, 50, 25)]
# Of the step peers: without any of these the comparison is none.
PEERS = ("superpipe-auto", "plain", "dispatch", "group-leaves-streams", "fsdp", "hooks")
BUDGETS = (10, 25, 50, 75, 90, 100)
ROW = re.compile(r"^\|\s*(H\d+[a-z]?)\s*\|")


def answered(steps: dict[str, dict]) -> set[str]:
    """The ids of the questions with a result in `steps`, the JSON objects of the steps by name."""
    probes = steps.get("doctor", {}).get("doctor", {}).get("probes", [])
    found = {str(probe.get("id")) for probe in probes if probe.get("outcome") in ANSWERED}
    torch = steps.get("torch", {}).get("cells", {})
    if all(torch.get(name, {}).get("digests") and torch[name].get("stats") for name in FRAMEWORK_CELLS):
        found.add("H11")
        if torch[FRAMEWORK_CELLS[0]]["stats"].get("tensor_maps"):  # none: perhaps the device has no such maps
            found.add("H23")
    if all(torch.get(f"training/times-{times}", {}).get("digests") for times in ("off", "cupti")):
        found.add("H13")
    rows = [row for cell in steps.get("peers", {}).get("cells", {}).values() for row in cell.get("rows", [])]
    ran = {row.get("peer") for row in rows if row.get("pass_ms") and not row.get("problem")}
    if set(PEERS) <= ran:
        found.add("H12b")
    examples = steps.get("examples", {}).get("cells", {})
    cells = [examples.get(f"layers/{load}/budget{percent}", {}) for load in ("memory", "balanced") for percent in BUDGETS]
    if all(cell.get("pass_ms") and cell.get("times_physical") and not cell.get("problem") for cell in cells):
        found.add("H12a")
    return found


def listed(text: str) -> list[str]:
    """The ids in the list, in order."""
    return [match.group(1) for match in map(ROW.match, text.splitlines()) if match]


def without(text: str, ids: set[str]) -> str:
    """The list without the questions `ids`; all else stays as it is."""
    kept = []
    for line in text.splitlines(keepends=True):
        match = ROW.match(line)
        if not match or match.group(1) not in ids:
            kept.append(line)
    return "".join(kept)
