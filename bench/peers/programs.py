"""Runs the programs of the comparison, one at a time: of each its figures, or what is wrong."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts" / "gpu_check")]
import machine  # noqa: E402  (found through the path above, as is the one below)
import peers  # noqa: E402

# Of every simulated run: a link and products so slow, that modelled times are far above what Python
# takes on this machine; driver calls cost time and take locks; two kernels of different streams run
# side by side.
DEVICE = {
    "SIMGPU_H2D_GBPS": "0.1",
    "SIMGPU_D2H_GBPS": "0.1",
    "SIMGPU_DEVICE_GBPS": "1",
    "SIMGPU_HALF_TFLOPS": "0.05",
    "SIMGPU_SINGLE_TFLOPS": "0.05",
    "SIMGPU_CALL_COSTS": "on",
    "SIMGPU_COMPUTE_ENGINES": "2",
}
# simgpu mixes the bytes of whole allocations: with one for each tensor, results do not depend on a
# cache's history.
ALLOCATOR = "backend:cudaMallocAsync"
# On a GPU, where the default is a share of the whole device.
HEADROOM = "64M"
SUPERPIPE = {"superpipe-auto": "superpipe auto", "superpipe-k": "superpipe --k"}
PROBE = """import importlib.metadata as data, json
found = {}
for name in ("torch", "accelerate", "diffusers"):
    try: found[name] = data.version(name)
    except data.PackageNotFoundError: pass
print(json.dumps(found))"""


class CannotRun(Exception):
    """One line that says what is missing."""


def reason_in(errors: str) -> str:
    """Why a program ended: what superpipe refused, or else the program's own last line."""
    lines = [line for line in errors.splitlines() if line.strip()]
    for line in lines:
        refused = re.match(r"superpipe: (a pass-through allocation .*? fails|.*too small for.*? at once)", line)
        if refused:
            return refused[1]
    own = [line for line in lines if not line.startswith("superpipe: ")]
    return own[-1].strip()[:200] if own else "said nothing"


class Bench:
    """Runs programs, one at a time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.packages = self.probe()

    def probe(self) -> dict[str, str]:
        try:
            found = subprocess.run(
                [str(self.options.python), "-c", PROBE], capture_output=True, text=True
            )
        except OSError as error:
            raise CannotRun(f"{self.options.python} cannot be run: {error.strerror}") from None
        packages = json.loads(found.stdout) if found.returncode == 0 else {}
        if "torch" not in packages:
            raise CannotRun(f"{self.options.python} has no torch; --python names another Python")
        if not self.options.superpipe.is_file():
            raise CannotRun(
                f"{self.options.superpipe} is not there; build superpipe, or name it by "
                "--superpipe"
            )
        return packages

    def superpipe_build(self) -> str:
        """A digest of superpipe's library: runs of two builds make no median."""
        prefix = self.options.superpipe.resolve().parents[1]
        library = prefix / "lib" / "superpipe" / "libsuperpipe.so"
        return hashlib.sha256(library.read_bytes()).hexdigest()[:16] if library.is_file() else ""

    def missing(self, peer: str) -> str:
        absent = (
            [name for name in peers.PEERS[peer].packages if name not in self.packages]
            if peer in peers.PEERS
            else []
        )
        return f"not installed: {', '.join(absent)}" if absent else ""

    def run(self, model: str, peer: str, knob: int, flags: list) -> dict:
        """One program. @return its figures; "problem" where there are none."""
        managed = peer in SUPERPIPE
        with tempfile.TemporaryDirectory(prefix="superpipe-peers-") as folder:
            stats = Path(folder) / "simgpu.json"
            variables = {
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("SUPERPIPE_", "SIMGPU_", "LD_PRELOAD"))
            }
            variables |= {"SUPERPIPE_SHARED_FOLDER": folder, "PYTHONDONTWRITEBYTECODE": "1"}
            if "SUPERPIPE_DRIVER" in os.environ:
                variables["SUPERPIPE_DRIVER"] = os.environ["SUPERPIPE_DRIVER"]
            if self.options.simulate:
                variables |= self.options.device | {
                    "SIMGPU_STATS": str(stats),
                    "PYTORCH_ALLOC_CONF": ALLOCATOR,
                }
                if not managed:
                    variables["SUPERPIPE_OFF"] = "1"
            words = [
                self.options.python,
                "-B",
                HERE / "worker.py",
                "--model",
                model,
                "--passes",
                self.options.passes,
                "--size",
                self.options.size,
                "--knob",
                knob,
                "--peer",
                "plain" if managed else peer,
                *(["--superpipe", self.options.superpipe] if managed else ["--count-copies"]),
                *(["--one-thread"] if self.options.simulate else []),
            ]
            if managed or self.options.simulate:
                ours = ["--simulate"] if self.options.simulate else ["--headroom", HEADROOM]
                words = [
                    self.options.superpipe,
                    "run",
                    *ours,
                    *(flags if managed else []),
                    "--",
                    *words,
                ]
            begin = time.monotonic()
            with machine.DeviceMemoryWatch(not self.options.simulate) as memory:
                try:
                    ended = subprocess.run(
                        [str(word) for word in words],
                        env=variables,
                        cwd=folder,
                        capture_output=True,
                        text=True,
                        timeout=self.options.limit,
                    )
                except subprocess.TimeoutExpired:
                    return {"problem": f"no answer in {self.options.limit:.0f} s"}
            try:
                figures = json.loads(ended.stdout.strip().splitlines()[-1])
            except (ValueError, IndexError):
                return {
                    "problem": f"exit code {ended.returncode}: {reason_in(ended.stderr)}",
                    "said": ended.stderr[-4000:],
                }
            if self.options.simulate:
                counted = json.loads(stats.read_text())
                figures |= {
                    "peak_bytes": counted["peak_bytes"],
                    "overrun_share": counted["overrun_share"],
                }
                # simgpu's device memory lies in the process.
                figures["host_bytes"] = max(0, figures["host_bytes"] - counted["peak_bytes"])
            else:
                figures["peak_bytes"] = memory.figures().get("driver_peak_bytes")
                if not figures["peak_bytes"]:
                    # What PyTorch counts leaves out the context, and has all that superpipe moved.
                    return {"problem": "NVIDIA's management library does not say the peak"}
            return {"problem": "", **figures, "seconds": round(time.monotonic() - begin, 1)}
