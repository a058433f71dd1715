"""One program of programs.py in this process, on the device or on the CPU; its last line of output is JSON.

What runs it is simulated_torch.py; it can be started by hand as well, under `superpipe run --simulate` or on a GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import traceback
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # cuBLAS has to give the same sums in every run
os.environ.setdefault("CUBLASLT_WORKSPACE_SIZE", "128")  # KiB, as much as that: half of a small program's peak has to be its data

import torch  # noqa: E402

import checks  # noqa: E402
import programs  # noqa: E402


def settle() -> None:
    """Makes torch do what a simulated device can, in the same order in each run."""
    torch.set_num_threads(1)
    torch.backends.cudnn.enabled = False  # NVIDIA's own runtime in it refuses simulated drivers
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.use_deterministic_algorithms(True, warn_only=True)


def digest(values: dict[str, torch.Tensor]) -> str:
    found = hashlib.sha256()
    for name, value in values.items():
        found.update(name.encode())
        found.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def compare(values: dict[str, torch.Tensor], reference: dict[str, torch.Tensor]) -> dict:
    """How far `values` are from `reference`: "equal" bit for bit, else the largest difference relative to the largest value."""
    if values.keys() != reference.keys():
        return {"equal": False, "distance": float("inf"), "differing": ["other names"]}
    differing, distance = [], 0.0
    for name, value in values.items():
        wanted = reference[name]
        if value.shape != wanted.shape or value.dtype != wanted.dtype:
            return {"equal": False, "distance": float("inf"), "differing": [name]}
        if not torch.equal(value.contiguous().reshape(-1).view(torch.uint8), wanted.contiguous().reshape(-1).view(torch.uint8)):
            differing.append(name)
            gap = (value.double() - wanted.double()).abs().max() / wanted.double().abs().max().clamp_min(1e-30)
            distance = max(distance, float("inf") if gap.isnan() else gap.item())
    return {"equal": not differing, "distance": distance, "differing": differing[:5]}


def outcome(name: str, program, options: argparse.Namespace) -> dict:
    """What `program` gave: "digest", "error", "compared" with the reference, "twin", "operands"."""
    answer: dict = {}
    mode = None
    try:
        torch.manual_seed(0)
        if options.twin:
            import twin

            mode = twin.Twin(options.twin)
            with mode:
                values = program(options.device, options.passes)
        elif options.marks:
            import operand_marks

            marks = operand_marks.OperandMarks()
            with marks:
                values = program(options.device, options.passes)
            answer["operands"] = marks.operands
        else:
            values = program(options.device, options.passes)
        answer["digest"] = digest(values)
        answer["bytes"] = sum(value.numel() * value.element_size() for value in values.values())
        if options.save:
            torch.save(values, options.save / f"{name}.pt")
        if options.reference:
            answer["compared"] = compare(values, torch.load(options.reference))
    except Exception as error:  # whatever torch raises is an outcome
        traceback.print_exc()
        answer["error"] = f"{type(error).__name__}: {error}".split("\n")[0][:300]
    if mode is not None:
        try:
            answer["twin"] = mode.finish()
        except Exception as error:
            answer.setdefault("error", f"{type(error).__name__}: {error}".split("\n")[0][:300])
    return answer


def main() -> int:
    every = {**programs.PROGRAMS, **checks.CHECKS}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, choices=sorted(every), nargs="+", help="with several, the answer has \"programs\" by name")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--passes", type=int, default=2, help="steps, or how long a program runs")
    parser.add_argument("--twin", type=Path, metavar="LIBRARY", help="run under the twin, whose kernels are in LIBRARY")
    parser.add_argument("--marks", action="store_true", help="mark operations in superpipe's trace; the answer has their operands")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="write the values there, to PROGRAM.pt")
    parser.add_argument("--reference", type=Path, metavar="FILE", help="compare the values with those of FILE")
    options = parser.parse_args()
    settle()
    answers = {name: outcome(name, every[name], options) for name in options.program}
    answer = answers[options.program[0]] if len(answers) == 1 else {"programs": answers}
    print(json.dumps(answer), flush=True)
    if "error" in answer:
        os._exit(3)  # without the libraries' destructors: what they do after a failure is no finding
    return 0  # the driver's counts are written on the way out


if __name__ == "__main__":
    sys.exit(main())
