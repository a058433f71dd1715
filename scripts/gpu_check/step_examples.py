"""Step examples: minilm and layers, with and without superpipe: the same bytes, and pass times against their bounds."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from pathlib import Path

import random_minilm
from bounds import bounds
from check import GIB, MIB, Context, Run, difference

SENTENCES = ("The cat sleeps on the warm windowsill.", "A kitten naps in the sunlight by the window.",
             "Interest rates rose by half a percent last quarter.", "The central bank made borrowing more expensive.")
MINILM_LAYERS = 6
SIMULATED_US_PER_MIB = 600  # what a core needs to really compute a layer, with room
LINK_PLUGIN = "gpu_test.simgpu.so"


@dataclasses.dataclass(frozen=True)
class Size:
    """How large a model of layers is run, and on what link where that is modelled."""

    layers: int
    mib: int
    passes: int
    simulated: dict
    layer_counts: tuple[int, ...]  # k
    budgets: tuple[int, ...]  # percent of the weights
    train_layer_counts: tuple[int, ...]
    busy: bool = True  # also with as much compute as transfer


REAL = Size(24, 64, 8, {}, (2, 4, 8, 12, 18, 23), (10, 25, 50, 75, 90, 100), (2, 8, 16))
REAL_SHORT = dataclasses.replace(REAL, layers=12, passes=5, layer_counts=(2, 6, 11), budgets=(25, 100),
                                 train_layer_counts=(4,))
SLOW_LINK = {"SIMGPU_H2D_GBPS": "0.25", "SIMGPU_D2H_GBPS": "0.25", "SIMGPU_D2D_GBPS": "6"}
SIMULATED = Size(16, 8, 5, SLOW_LINK, (2, 4, 8, 15), (25, 50, 75, 100), (2, 8))
SIMULATED_SHORT = Size(8, 2, 4, SLOW_LINK, (2, 4), (50,), (2,), busy=False)


def size_of(context: Context) -> Size:
    if context.simulated:
        return SIMULATED_SHORT if context.options.short else SIMULATED
    return REAL_SHORT if context.options.short else REAL


def steady(times: list[float]) -> float:
    """The median of the second half: the first passes load, and learn the order."""
    return statistics.median(times[len(times) // 2:]) if times else 0.0


class Examples:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.size = size_of(context)
        self.link = 0.0

    def measure_link(self, name: str) -> None:
        """Bandwidth of the link in this very run, in pieces of a layer's size."""
        def measure() -> dict:
            run = self.context.run([self.context.layout.program("device_probe"), "link", "--mib", self.size.mib,
                                    "--repeats", 3 if self.context.simulated else 20],
                                   managed=False, plugin=LINK_PLUGIN, simulated=self.size.simulated)
            answer = self.context.answer(run)
            return {"problem": run.problem or ("" if answer else "printed no JSON"), **answer}

        self.link = self.context.cell(f"link/{name}", measure).get("h2d_bytes_per_second", 0.0) or 1.0

    def figures(self, run: Run) -> dict:
        stats = run.stats
        return {"peak_bytes": run.peak_bytes(), "overrun_ms": run.simulated.get("overrun_ms", 0.0),
                **{name: stats[name] for name in ("policy", "k", "k_prime", "layers", "budget_bytes", "context_bytes",
                                                  "peak_device_bytes", "managed_bytes", "passthrough_bytes", "headroom_bytes",
                                                  "h2d_bytes", "d2h_bytes", "prefetches", "demand_fetches", "stall_ms", "bound_ms")
                   if name in stats}}

    # Layers.

    def layers(self, flags: tuple, compute_us: int, managed: bool = True, *words: object, **variables: object) -> Run:
        size = self.size
        return self.context.run([self.context.layout.example("layers"), "--layers", size.layers, "--layer-mib", size.mib,
                                 "--passes", size.passes, "--compute-us", compute_us, "--json", *words],
                                flags, managed, watch=True, simulated=size.simulated, **variables)

    def timed(self, run: Run, reference: dict) -> dict:
        """Times and bytes of a run of layers; `reference` is the cell of the run without superpipe, empty for that run."""
        answer = self.context.answer(run)
        times = answer.get("pass_ms", [])
        problem = run.problem or ("" if answer else "printed no JSON")
        if not problem and reference and answer.get("digest") != reference.get("digest"):
            problem = "another digest than without superpipe"
        if not problem and run.stats.get("errors"):
            problem = f"superpipe counted {run.stats['errors']} errors"
        return {"problem": problem, "digest": answer.get("digest", ""), "pass_ms": steady(times), "all_pass_ms": times,
                "reliable": run.in_time(), **self.figures(run)}

    def bounded(self, cell: dict, compute_ms: float, fit_bytes: float) -> dict:
        layer = self.size.mib * MIB
        found = bounds(compute_ms, self.size.layers * layer, fit_bytes, self.link, layer / 8)
        times = {f"times_{name[:-3]}": round(cell["pass_ms"] / value, 4) if value else None for name, value in found.items()}
        return {**cell, "compute_ms": compute_ms, "link_bytes_per_second": self.link, **found, **times}

    def run_layers(self) -> None:
        size, layer = self.size, self.size.mib * MIB
        # Two loads: kernels as fast as memory allows, and as much compute as transfer, where overlap shows the most.
        transfer_us = int(1e6 * layer / self.link)
        least_us = SIMULATED_US_PER_MIB * size.mib if self.context.simulated else 0
        for load, compute_us in (("memory", least_us), ("balanced", transfer_us)) if size.busy else (("memory", least_us),):
            reference = self.context.cell(f"layers/{load}/without", lambda: self.timed(
                self.layers((), compute_us, managed=False), {}))
            compute_ms = reference["pass_ms"]
            fits = self.context.cell(f"layers/{load}/fits", lambda: self.bounded(
                self.timed(self.layers(("--policy", "resident"), compute_us), reference), compute_ms, size.layers * layer))
            for k in size.layer_counts:
                self.context.cell(f"layers/{load}/k{k}", lambda: self.bounded(self.timed(
                    self.layers(("--k", k), compute_us), reference), compute_ms, k * layer))
            for percent in size.budgets:
                share = size.layers * layer * percent // 100
                # The budget also has to hold the context, pass-through memory and headroom.
                budget = sum(fits.get(name, 0) for name in ("context_bytes", "passthrough_bytes", "headroom_bytes")) + share
                self.context.cell(f"layers/{load}/budget{percent}", lambda: {**self.bounded(self.timed(
                    self.layers(("--gpu-mem", budget), compute_us), reference), compute_ms, share), "percent": percent})
        for name, flags in (("naive", ("--policy", "naive", "--k", size.layers // 2)),
                            ("paper", ("--policy", "superpipeline-paper", "--k", size.layers // 2))):
            reference = self.context.value["cells"]["layers/memory/without"]
            self.context.cell(f"layers/memory/{name}", lambda: self.bounded(
                self.timed(self.layers(flags, least_us), reference), reference["pass_ms"], size.layers // 2 * layer))
        self.train()

    def train(self) -> None:
        words = ("--mode", "train")
        reference = self.context.cell("train/without", lambda: self.timed(self.layers((), 0, False, *words), {}))
        for k in self.size.train_layer_counts:
            self.context.cell(f"train/k{k}", lambda: self.timed(
                self.layers(("--k", k), 0, True, *words), reference))

    # minilm.

    def minilm(self, folder: str, flags: tuple, managed: bool = True) -> Run:
        return self.context.run([self.context.layout.example("minilm"), "--model", folder, "--repeat",
                                 4 if self.context.options.short else 12, "--output", "{out}/embeddings", *SENTENCES],
                                flags, managed, watch=True,
                                simulated=self.size.simulated)

    def compared(self, run: Run, reference: Run, resident: dict) -> dict:
        """Bytes against the run without superpipe, times against `resident`, the run with everything on the device."""
        figures = self.figures(run)
        figures["pass_ms"] = run.stats.get("pass_ms", 0.0)
        problem = difference(run, reference)
        if not problem and not run.stats:
            problem = "superpipe wrote no statistics: was it there at all?"
        sizes = run.stats.get("layer_bytes") or []
        if not problem and resident.get("pass_ms") and sizes and figures["pass_ms"]:
            on_device = sum(sorted(sizes, reverse=True)[:run.stats.get("k") or len(sizes)])
            found = bounds(resident["pass_ms"], sum(sizes), on_device, self.link, max(sizes) / 8)
            figures.update({"compute_ms": resident["pass_ms"], "link_bytes_per_second": self.link, **found,
                            **{f"times_{name[:-3]}": round(figures["pass_ms"] / value, 4) if value else None
                               for name, value in found.items()}})
        return {"problem": problem, **figures}

    def run_minilm(self) -> None:
        grid = {f"k{k}": ("--k", k) for k in range(1, MINILM_LAYERS + 1)}
        grid.update({f"naive-k{k}": ("--policy", "naive", "--k", k) for k in (1, 3, 6)})
        grid.update({f"paper-k{k}": ("--policy", "superpipeline-paper", "--k", k) for k in (2, 4)})
        if self.context.options.short:
            grid = {name: grid[name] for name in ("k2", "k4", "naive-k3")}
        wanted = {f"minilm/{name}" for name in ("without", "resident", *grid)}
        if wanted <= self.context.value["cells"].keys():
            return
        with tempfile.TemporaryDirectory(prefix="superpipe-model-") as made:
            folder = self.context.options.model
            if folder:
                weights = f"the weights in {Path(folder).name}"
            else:
                folder, weights = made, "random weights (seed 1) of the same architecture"
                random_minilm.write_model(Path(made))
            self.context.note(minilm_weights=weights)
            reference = self.minilm(folder, (), managed=False)
            self.context.cell("minilm/without", lambda: {"problem": reference.problem, "bytes": len(
                reference.files.get("embeddings", b"")), "peak_bytes": reference.peak_bytes()})
            resident = self.context.cell("minilm/resident", lambda: self.compared(
                self.minilm(folder, ("--k", MINILM_LAYERS)), reference, {}))
            for name, flags in grid.items():
                self.context.cell(f"minilm/{name}", lambda: self.compared(self.minilm(folder, flags), reference, resident))


def run(context: Context) -> None:
    size = size_of(context)
    # Training has weights, gradients and optimizer state, once in the program and once in superpipe's pinned memory.
    context.need_host_memory(2 * 3 * size.layers * size.mib * MIB + GIB, "the example layers")
    examples = Examples(context)
    examples.measure_link("before")
    examples.run_minilm()
    examples.run_layers()
    examples.measure_link("after")
    unreliable = sum(cell.get("reliable") is False for cell in context.value["cells"].values())
    context.finish(f"{len(context.value['cells'])} cells, the same bytes in all" +
                   (f"; in {unreliable} this machine was slower than simgpu's model: their times do not count"
                    if unreliable else ""))
