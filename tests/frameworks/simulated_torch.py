"""Runs a Python program that uses PyTorch on simgpu, with or without superpipe, as a process of its own with a time limit.

What tests/frameworks and scripts/scout_torch_on_simgpu share. Needs no torch itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

ALLOCATORS = {"native": "backend:native", "async": "backend:cudaMallocAsync"}
COUNTED = ("peak_bytes", "h2d_bytes", "launches", "unmapped_accesses", "overrun_share", "call_ms", "call_wait_ms")
PROBE = "import torch; print(torch.__version__, torch.version.cuda or 'no CUDA')"


class Unfit(Exception):
    """One line that says what this machine lacks."""


class Build:
    """A build tree of superpipe, or what is laid out like one."""

    PARTS = ("bin/superpipe", "lib/superpipe/libsuperpipe.so", "lib/superpipe/simgpu/libcuda.so.1", "lib/superpipe/simgpu/libcudart.so.13",
             "lib/superpipe/simgpu/libcublas.so.13", "lib/superpipe/simgpu/libcublasLt.so.13")

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.simgpu = self.folder / "lib" / "superpipe" / "simgpu"
        self.command = self.folder / "bin" / "superpipe"
        self.twin = self.folder / "tests" / "frameworks" / "twin.simgpu.so"
        self.kernel_parameters = self.folder / "tests" / "frameworks" / "kernel_parameters"

    def check(self) -> None:
        if missing := [part for part in self.PARTS if not (self.folder / part).exists()]:
            raise Unfit(f"{self.folder} lacks {', '.join(missing)}; build superpipe first, or name the folder with --build")


def torch_version(python: Path) -> tuple[str, str]:
    """Versions of torch and of its CUDA. @raises Unfit where it has none for simgpu."""
    try:
        found = subprocess.run([str(python), "-c", PROBE], capture_output=True, text=True)
    except OSError as error:
        raise Unfit(f"{python} cannot be run: {error.strerror}") from None
    if found.returncode != 0:
        raise Unfit(f"{python} has no torch; scripts/test --frameworks makes build/frameworks-venv, which has")
    version, cuda = found.stdout.strip().split(" ", 1)
    if not cuda.startswith("13."):
        raise Unfit(f"torch {version} is for {cuda}; simgpu's runtime library takes the place of CUDA 13's")
    return version, cuda


def simulated_run(build: Build, program: list, *, allocator: str, managed: bool, flags: list | tuple = (),
                  environment: dict | None = None, limit: float = 180) -> dict:
    """Runs `program`, a command whose last line of output is JSON; under superpipe if `managed`, with `flags` of its own.

    @return what it printed, and simgpu's counts (COUNTED). "error": why there is none, or the program's own; then "said" is
    what simgpu and superpipe complained of, and "output" the end of what was printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder) / "simgpu.json"
        variables = {key: value for key, value in os.environ.items()
                     if not key.startswith(("SUPERPIPE_", "SIMGPU_"))
                     or key == "SUPERPIPE_SHARED_FOLDER"}
        variables |= {"PYTORCH_ALLOC_CONF": ALLOCATORS[allocator], "SIMGPU_STATS": str(stats),
                      "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
        variables |= environment or {}
        if not managed:
            variables["SUPERPIPE_OFF"] = "1"
        command = [build.command, "run", "--simulate", *(flags if managed else []), "--", *program]
        process = subprocess.Popen([str(word) for word in command], env=variables, text=True, cwd=folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            return {"error": f"no answer in {limit:.0f} s", "said": said(errors), "output": errors[-2000:]}
        try:
            answer = json.loads(output.strip().split("\n")[-1])
        except ValueError:
            code = process.returncode
            answer = {"error": signal.Signals(-code).name if code < 0 else f"exit code {code}"}
        if "error" in answer:
            answer |= {"said": said(errors), "output": errors[-2000:]}
        if stats.exists():
            counted = json.loads(stats.read_text())
            answer |= {key: counted[key] for key in COUNTED}
        return answer


def said(errors: str) -> list[str]:
    """What simgpu and superpipe complained of."""
    lines = [line[:300] for line in errors.split("\n") if line.startswith(("simgpu:", "superpipe"))]
    return [line for line in lines if not line.startswith("superpipe: ")][:5]
