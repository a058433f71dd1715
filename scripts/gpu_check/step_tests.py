"""Step tests: whole programs with and without superpipe, byte by byte; many of them random."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

from check import GIB, MIB, Context, Run, difference

SCENARIOS = ("forward", "training", "asynchronous", "hidden_pointers", "copies")
MANAGED_PLUGIN, RANDOM_PLUGIN = "kernels_plugin.so", "gpu_test.simgpu.so"
MOST = "90%"  # a budget that leaves room for everything: what a context takes is found out otherwise without a budget
LEAVING = ("pending", "exit", "thread", "at-once")


def judged(managed: Run, reference: Run, must_move: bool = True) -> dict:
    """The figures of a run under superpipe against the one without."""
    problem = f"without superpipe: {reference.problem}" if reference.problem else difference(managed, reference)
    stats = managed.stats
    if not problem and not stats:
        problem = "superpipe wrote no statistics: was it there at all?"
    elif not problem and stats.get("errors", 0):
        problem = f"superpipe counted {stats['errors']} errors"
    elif not problem and must_move and not (stats.get("evictions") and stats.get("fetches")):
        problem = "nothing was moved: the run shows nothing"
    elif not problem and managed.simulated.get("unmapped_accesses"):
        problem = f"{managed.simulated['unmapped_accesses']} accesses to unmapped memory"
    return {"problem": problem, **{name: stats.get(name) for name in
                                   ("launches", "fetches", "evictions", "write_backs", "stall_ms", "peak_device_bytes")}}


def silent(run: Run) -> Run:
    """The run without its output, of a program that prints times: what it computed is in the files it wrote."""
    return dataclasses.replace(run, finished=dataclasses.replace(run.finished, stdout=""))


def calibrated(run: Run) -> dict:
    """How much of the device is not for managed buffers, in a run under superpipe."""
    taken = sum(run.stats.get(name, 0) for name in ("context_bytes", "passthrough_bytes", "headroom_bytes"))
    return {"problem": run.problem or ("" if taken else "no statistics of superpipe"), "other_bytes": taken}


class Tests:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.managed_program = [context.layout.program("managed_program")]
        self.kernels = context.layout.program("kernels.fatbin")
        self.random_program = context.layout.program("random_device_program")
        self.references: dict[str, Run] = {}
        # A budget includes the context, pass-through memory and headroom, which differ by program and driver.
        self.calibration = {
            "managed": context.cell("calibration/managed", lambda: calibrated(self.scenario("forward", SUPERPIPE_GPU_MEM=MOST))),
            "random": context.cell("calibration/random", lambda: calibrated(self.random(1, 1, SUPERPIPE_GPU_MEM=MOST)))}

    def scenario(self, name: str, managed: bool = True, *words: object, **variables: object) -> Run:
        return self.context.run([*self.managed_program, name, self.kernels, *words], managed=managed, plugin=MANAGED_PLUGIN,
                                simulated={"SIMGPU_MEMORY": "256M"}, **variables)

    def random(self, seed: int, programs: int, managed: bool = True, *words: object, limit: float = 150,
               **variables: object) -> Run:
        return self.context.run([self.random_program, "--seed", seed, "--programs", programs, *words], managed=managed,
                                plugin=RANDOM_PLUGIN, simulated={"SIMGPU_MEMORY": "512M"}, limit=limit, **variables)

    def budget(self, mib: int, program: str = "managed") -> int:
        """The budget with which `mib` MiB are left for managed buffers."""
        return self.calibration[program].get("other_bytes", 0) + mib * MIB

    def reference(self, key: str, run) -> Run:
        if key not in self.references:
            self.references[key] = run()
        return self.references[key]

    def variants(self, scenario: str) -> dict[str, dict]:
        """How superpipe is told to run a scenario: ways in which it has to move something."""
        if scenario == "asynchronous":
            return {"k3": {"SUPERPIPE_K": 3}, "budget": {"SUPERPIPE_GPU_MEM": self.budget(12)}}
        if scenario == "hidden_pointers":  # buffers that device memory points to are never evicted: they need room
            return {"k4": {"SUPERPIPE_K": 4}, "budget": {"SUPERPIPE_GPU_MEM": self.budget(14)}}
        return {"k1": {"SUPERPIPE_K": 1}, "k4-3": {"SUPERPIPE_K": 4, "SUPERPIPE_K_PRIME": 3},
                "paper-k3": {"SUPERPIPE_K": 3, "SUPERPIPE_POLICY": "superpipeline-paper"},
                "budget": {"SUPERPIPE_GPU_MEM": self.budget(12)}}

    def end_to_end(self) -> None:
        for name in SCENARIOS:
            for variant, variables in self.variants(name).items():
                self.context.cell(f"end-to-end/{name}/{variant}", lambda: judged(
                    self.scenario(name, **variables),
                    self.reference(name, lambda: self.scenario(name, managed=False))))
        for name, must_move in (("attributes", False), ("reset", True), ("fork", True)):
            self.context.cell(f"end-to-end/{name}", lambda: judged(
                self.scenario(name, SUPERPIPE_K=2), self.scenario(name, managed=False), must_move))
        for name, overflow, result in (("too-large", "fail", 701), ("too-large-allowed", "allow", 0)):
            self.context.cell(f"end-to-end/{name}", lambda: self.too_large(overflow, result))

    def too_large(self, overflow: str, result: int) -> dict:
        """Launches that alone need more than the budget end with `result`; what runs between them is as ever."""
        run = self.scenario("too_large", SUPERPIPE_GPU_MEM=self.budget(18), SUPERPIPE_OVERFLOW=overflow)
        reference = self.reference("too_large", lambda: self.scenario("too_large", managed=False))
        expected = reference.stdout.replace("launch 0", f"launch {result}")
        return {"problem": run.problem or reference.problem or
                ("" if run.stdout == expected else f"printed {run.stdout[:80]!r}, not {expected[:80]!r}")}

    def everything_fits(self) -> dict:
        run = self.scenario("forward")
        moved = [name for name in ("fetches", "evictions", "h2d_bytes", "d2h_bytes") if run.stats.get(name)]
        return {"problem": run.problem or difference(run, self.scenario("forward", managed=False)) or
                (f"moved without need: {', '.join(moved)}" if moved else "")}

    def under_load(self) -> None:
        """Evictions while several streams are busy, in training too."""
        mib = 2 if self.context.simulated else 16
        layers = [self.context.layout.example("layers"), "--layers", 12, "--layer-mib", mib, "--output", "{out}/digests",
                  "--json"]
        loads = {"forward-4-streams": ["--streams", 4, "--passes", 4],
                 "forward-async": ["--streams", 3, "--passes", 4, "--alloc", "async", "--async"],
                 "training-3-streams": ["--mode", "train", "--streams", 3, "--passes", 3]}
        for name, words in loads.items():
            for flags in (("--k", "2"), ("--k", "6")):
                self.context.cell(f"load/{name}/{'-'.join(flags[1::2])}", lambda: judged(
                    silent(self.context.run([*layers, *words], flags)),
                    self.reference(name, lambda: silent(self.context.run([*layers, *words], managed=False)))))

    def leaving(self) -> None:
        """Processes that end with work still queued."""
        for how in LEAVING:
            self.context.cell(f"exit/{how}", lambda: self.leave(how))

    def leave(self, how: str) -> dict:
        run = self.random(7, 1, True, "--leave", how, limit=60, SUPERPIPE_GPU_MEM=self.budget(12, "random"))
        reference = self.random(7, 1, False, "--leave", how, limit=60)
        problem = difference(run, reference)
        if not problem and how != "at-once" and not run.stats:
            problem = "superpipe wrote no statistics at exit"
        return {"problem": problem}

    def random_programs(self) -> None:
        batches, of_each = (2, 5) if self.context.options.short else (40, 25)
        # The small budgets move the most bytes; the schedules by k move them in other orders.
        variants = [{"SUPERPIPE_GPU_MEM": self.budget(12, "random")}, {"SUPERPIPE_GPU_MEM": self.budget(20, "random")},
                    {"SUPERPIPE_K": 1}, {"SUPERPIPE_K": 3, "SUPERPIPE_K_PRIME": 2},
                    {"SUPERPIPE_K": 2, "SUPERPIPE_POLICY": "superpipeline-paper"}]
        for batch in range(batches):
            self.context.cell(f"random/{batch + 1}", lambda: self.batch(1 + batch * of_each, of_each,
                                                                        variants[batch % len(variants)]))
        done = [cell for name, cell in self.context.value["cells"].items() if name.startswith("random/")]
        self.context.note(random_programs=sum(cell["programs"] for cell in done),
                          random_evictions=sum(cell.get("evictions") or 0 for cell in done))

    def batch(self, seed: int, count: int, variables: dict) -> dict:
        # Both runs at once only on simgpu, which gives each a device of its own; on a GPU they would share its memory.
        with ThreadPoolExecutor(max_workers=2 if self.context.simulated else 1) as runs:
            managed = runs.submit(self.random, seed, count, **variables)
            reference = runs.submit(self.random, seed, count, False)
            figures = judged(managed.result(), reference.result(), must_move=False)
        if figures["problem"]:
            # Runs the batch's programs one by one, to name the one that differs.
            for one in range(seed, seed + count):
                alone = judged(self.random(one, 1, limit=30, **variables), self.random(one, 1, False, limit=30), False)
                if alone["problem"]:
                    figures["problem"] = f"program {one} with {variables}: {alone['problem']}"
                    break
        return {**figures, "first_seed": seed, "programs": count, "variables": {k: str(v) for k, v in variables.items()}}


def run(context: Context) -> None:
    context.need_host_memory(2 * GIB, "these programs")
    tests = Tests(context)
    tests.end_to_end()
    context.cell("end-to-end/everything-fits", tests.everything_fits)
    tests.under_load()
    tests.leaving()
    tests.random_programs()
    if not context.value.get("random_evictions"):
        context.cell("random", lambda: {"problem": "none of the random programs moved anything"})
    context.finish(f"{len(context.value['cells'])} checks, {context.value['random_programs']} random programs")
