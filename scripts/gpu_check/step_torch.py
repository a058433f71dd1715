"""Step torch: unmodified PyTorch programs without superpipe, with it at 100, 50 and 25 % of their own peak, timed by CUPTI, and
beside accelerate's offloading with as much of the device."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from check import GIB, Context, Run, StepSkipped

SCRIPTS = {"inference": ("torch_inference.py", 8), "training": ("torch_training.py", 5)}
PERCENTS = (100, 50, 25)
PROBE = ("import json, torch; print(json.dumps({'torch': torch.__version__, 'cuda': torch.version.cuda, "
         "'available': torch.cuda.is_available()}))")
FIRST_KERNEL = "import torch; print(float((torch.ones(1 << 20, device='cuda') * 2).sum()))"
HOST_BYTES = 12 * GIB  # both models on the host too, with Python and CUDA's libraries
RUN_LIMIT_S = 150
LEAST_MEASURED = 0.9  # of the kernels' time, for CUPTI to have told it
IMPORT_LIMIT_S = 240  # the first import on a machine reads gigabytes from its disk


def python_with_torch(context: Context) -> tuple[str, dict]:
    """The first Python that imports torch. Skips the step where there is none."""
    tried = []
    for python in dict.fromkeys([os.environ.get("SUPERPIPE_CHECK_PYTHON", ""), sys.executable,
                                 shutil.which("python3") or ""]):
        if not python:
            continue
        finished = context.execute([python, "-B", "-c", PROBE], context.environment(), IMPORT_LIMIT_S)
        answer = context.answer(Run(finished))
        if not finished.problem and answer:
            return python, answer
        tried.append(f"{python} ({finished.problem})")
    raise StepSkipped(f"Python without torch: {'; '.join(tried)}")


class Torch:
    def __init__(self, context: Context, python: str) -> None:
        self.context = context
        self.python = python
        self.words, self.variables = ["--size", "small" if context.options.short else "full"], {}
        if context.simulated:
            self.words = ["--size", "small" if context.options.short else "medium", "--without-cudnn"]
            # NVIDIA's cuBLAS refuses a driver that is not NVIDIA's, so simgpu's stand-ins take its place. All runs use
            # the same allocator: simgpu does not run torch's kernels but mixes the words of whole allocations.
            self.variables = {"LD_PRELOAD": ":".join(map(str, context.layout.cublas)),
                              "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}

    def script(self, name: str, flags: tuple = (), managed: bool = True, words: tuple = ()) -> Run:
        file, passes = SCRIPTS[name]
        return self.context.run([self.python, "-B", self.context.layout.scripts / "frameworks" / file, "--passes", passes,
                                 *self.words, *words], flags, managed, limit=RUN_LIMIT_S, watch=True, **self.variables)

    def figures(self, run: Run) -> dict:
        answer = self.context.answer(run)
        times = answer.get("pass_ms", [])
        problem = run.problem or ("" if answer else "printed no JSON")
        # superpipe's own words on what went wrong; its summary is in the statistics.
        said = [line for line in run.finished.stderr.splitlines() if line.startswith("superpipe")][:8]
        return {"problem": problem, **{name: value for name, value in answer.items() if name != "pass_ms"},
                "pass_ms": statistics.median(times[len(times) // 2:]) if times else 0.0, "all_pass_ms": times,
                "reliable": run.in_time(), "peak_bytes": run.peak_bytes(), **run.memory, "stats": run.stats, "said": said}

    def context_bytes(self) -> dict:
        """What the context of a torch program takes: a budget is counted with it."""
        run = self.context.run([self.python, "-B", "-c", FIRST_KERNEL], limit=RUN_LIMIT_S, **self.variables)
        taken = run.stats.get("context_bytes")
        problem = run.problem or ("" if taken else "no statistics: is superpipe in front of torch's driver?")
        return {"problem": problem, "context_bytes": taken or 0, "said": run.finished.stderr.splitlines()[-5:]}

    def compared(self, run: Run, name: str) -> dict:
        figures = self.figures(run)
        reference = self.context.value["cells"][f"{name}/without"]
        again = self.context.value["cells"][f"{name}/again"]
        if figures["problem"]:
            return figures
        if not figures["stats"]:
            figures["problem"] = "superpipe wrote no statistics: was it there at all?"
        elif figures["digests"] != reference["digests"]:
            figures["problem"] = ("other bytes than without superpipe" if again["digests"] == reference["digests"] else
                                  "the program gives other bytes in every run, without superpipe too: nothing to compare")
        return figures

    def measure(self, name: str, context_bytes: int) -> None:
        cell = self.context.cell
        reference = cell(f"{name}/without", lambda: self.figures(self.script(name, managed=False)))
        again = cell(f"{name}/again", lambda: self.figures(self.script(name, managed=False)))
        if self.context.simulated and again.get("digests") != reference.get("digests"):
            # simgpu computes from words of torch's structs that torch never set (docs/decisions/0005).
            self.context.note(not_compared=f"{name}: other bytes in every run on the simulated GPU, without superpipe too")
            return
        peak = reference.get("max_memory_reserved_bytes", 0)
        if not peak:
            return
        other_bytes = context_bytes
        # The first budget leaves room for everything; from its run on it is known what the buffers do not get.
        for percent in PERCENTS:
            budget = other_bytes + peak * percent // 100
            figures = cell(f"{name}/{percent}", lambda: {
                **self.compared(self.script(name, ("--gpu-mem", budget)), name), "percent": percent, "budget_bytes": budget})
            stats = figures.get("stats", {})
            other_bytes = max(other_bytes, sum(stats.get(part, 0) for part in
                                               ("context_bytes", "passthrough_bytes", "headroom_bytes")))

    def traced(self, name: str, kernel_times: str) -> dict:
        """Passes of which a trace is recorded, and what share of its kernels' time was measured."""
        with tempfile.TemporaryDirectory(prefix="superpipe-check-") as folder:
            trace = Path(folder) / "run.sptrace"
            figures = self.compared(self.script(name, ("--trace", trace, "--kernel-times", kernel_times)), name)
            if figures["problem"] or kernel_times == "off":
                return figures
            asked = self.context.execute([self.context.layout.superpipe, "plan", trace, "--json"], self.context.environment(), 60)
            share = self.context.answer_of(asked.stdout).get("measured_compute_share", 0.0)
        figures["measured_share"] = share
        if share < LEAST_MEASURED:
            figures["problem"] = f"CUPTI told the times of {100 * share:.0f} % of the kernels' time: {figures['said']}"
        return figures

    def time_kernels(self, name: str) -> None:
        """What CUPTI's times cost, beside a trace without times. CUPTI refuses the simulated GPU."""
        if self.context.simulated or "digests" not in self.context.value["cells"][f"{name}/without"]:
            return
        for kernel_times in ("off", "cupti"):
            self.context.cell(f"{name}/times-{kernel_times}", lambda: self.traced(name, kernel_times))

    def beside_accelerate(self, context_bytes: int) -> None:
        """Inference with half of its weights on the device by accelerate, and with superpipe and as much of the device as that took."""
        reference = self.context.value["cells"]["inference/without"]
        if self.context.simulated or "digests" not in reference:
            return
        found = self.context.execute([self.python, "-B", "-c", "import accelerate"], self.context.environment(), IMPORT_LIMIT_S)
        if found.problem:
            self.context.note(without_accelerate=found.problem)
            return
        half = ("--accelerate-mem", reference["parameter_bytes"] // 2)
        cell = self.context.cell
        other = cell("inference/accelerate", lambda: self.figures(self.script("inference", managed=False, words=half)))
        peak = other.get("max_memory_reserved_bytes", 0)
        if peak:
            budget = context_bytes + peak
            cell("inference/as-accelerate", lambda: {
                **self.compared(self.script("inference", ("--gpu-mem", budget)), "inference"), "budget_bytes": budget})


def run(context: Context) -> None:
    python, facts = python_with_torch(context)
    context.note(python=python, torch=facts)
    torch = Torch(context, python)
    if context.simulated:
        tried = torch.script("inference", managed=False)
        if tried.problem:
            raise StepSkipped(f"torch {facts['torch']} does not run on the simulated GPU: {tried.problem}")
    elif not facts["available"]:
        raise StepSkipped(f"torch {facts['torch']} (CUDA {facts['cuda']}) sees no GPU")
    context.need_host_memory(HOST_BYTES, "torch with these models")
    calibration = context.cell("calibration", torch.context_bytes)
    for name in SCRIPTS:
        torch.measure(name, calibration["context_bytes"])
    torch.time_kernels("training")
    torch.beside_accelerate(calibration["context_bytes"])
    remark = f"torch {facts['torch']}: the same bytes at {', '.join(map(str, PERCENTS))} % of the peak"
    if "not_compared" in context.value:
        remark += f"; not compared: {context.value['not_compared']}"
    unreliable = sum(cell.get("reliable") is False for cell in context.value["cells"].values())
    if unreliable:
        remark += f"; in {unreliable} this machine was slower than simgpu's model: their times do not count"
    context.finish(remark)
