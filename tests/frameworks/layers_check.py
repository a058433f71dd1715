"""Whether superpipe's layers are those of a model, by the addresses of their parameters."""

from __future__ import annotations

import csv
from pathlib import Path

UNNUMBERED = ("", "shared")
MANAGED = 1 << 20  # bytes from which superpipe manages a buffer


def layers_by_address(export: Path) -> dict[int, str]:
    """Of an exported trace (superpipe export --format csv): the layer of each managed buffer, by its address."""
    with export.open(newline="", encoding="utf-8", errors="replace") as file:
        return {int(row["address"]): row["layer"] for row in csv.DictReader(file)
                if row["event"] == "allocation" and row["buffer"]}


def problem(tree: dict, layers: dict[int, str], shown: int) -> tuple[str | None, str]:
    """What is wrong, or None, and what was found.

    `tree`: what module_tree.py wrote. `layers`: by address, "" where a buffer is in none. `shown`: how many layers the summary of
    the run says that there are. Parameters below 1 MiB, which superpipe does not manage, do not count; all others are in a layer.
    Each block has to be one layer, and another one than each other block; and modules that are called later may not be in
    earlier layers.
    """
    numbers = {}  # by module, of each of its managed parameters
    seen = set()  # what two modules share is the first one's
    for module in tree["modules"]:
        own = []
        for address, size in module["parameters"]:
            if size >= MANAGED and layers.get(address, "") in UNNUMBERED:
                return f"a parameter of {module['name']} is in no layer: {layers.get(address, 'it is no buffer')!r}", ""
            if address in layers and address not in seen:
                own.append(address)
        numbers[module["name"]] = [layers[address] for address in own]
        seen.update(own)
    of_blocks = []
    for block in tree["blocks"]:
        found = {number for name, own in numbers.items() if name.startswith(block) for number in own}
        if len(found) != 1 or found & {*UNNUMBERED}:
            return f"{block} is in layers {sorted(found)}", ""
        of_blocks.append(found.pop())
    if len(set(of_blocks)) != len(of_blocks):
        return f"blocks share layers: {of_blocks}", ""
    in_order = [int(number) for own in numbers.values() for number in own if number not in UNNUMBERED]
    if in_order != sorted(in_order):
        return f"the layers of modules in the order of their calls: {in_order}", ""
    if shown != len(set(in_order)):
        return f"the run says that there are {shown} layers, its trace has {len(set(in_order))}", ""
    return None, f"{len(of_blocks)} blocks of {len(set(in_order))} layers, {len(in_order)} parameters"
