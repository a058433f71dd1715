"""One program of compare.py: a model, with one peer or none, in a process of its own. Its last line
of output is JSON.

    worker.py --model NAME --peer NAME [--knob N] [--passes N] [--size SIZE] [--superpipe COMMAND]
    [--count-copies]

Times are the host's, from before a pass until the device has ended it. With --superpipe, what
superpipe moves in the timed passes is asked of that command's `top`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import time
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import models
import peers

WARM = 2  # passes that load, and from which superpipe learns the order


def host_bytes(name: str) -> int:
    """VmRSS or VmHWM of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def digest(*tensors: torch.Tensor) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        found.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


class CopiedBytes(TorchDispatchMode):
    """Counts what PyTorch's own copies move between host and device."""

    def __init__(self) -> None:
        super().__init__()
        self.to_device = self.to_host = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name == "_to_copy":
            self.count(args[0], result)
        elif name == "copy_":
            self.count(args[1], args[0])
        return result

    def count(self, source: torch.Tensor, target: torch.Tensor) -> None:
        if not isinstance(source, torch.Tensor) or source.device.type == target.device.type:
            return
        size = target.numel() * target.element_size()
        if target.device.type == "cuda":
            self.to_device += size
        elif target.device.type == "cpu":
            self.to_host += size


class Inference:
    """Passes of a model that learns nothing."""

    def __init__(self, model: torch.nn.Module, inputs) -> None:
        self.model, self.inputs = model.eval(), inputs

    def run(self, number: int) -> torch.Tensor:
        with torch.no_grad():
            return self.inputs(self.model, number)


class Training:
    """Steps with AdamW, which updates each parameter by itself."""

    def __init__(self, model: torch.nn.Module, ids: torch.Tensor, helper) -> None:
        self.model, self.ids, self.helper = model, ids, helper
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)

    def run(self, number: int) -> torch.Tensor:
        logits = self.model(self.ids)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.ids.flatten()).backward()
        if self.helper is not None:
            self.helper.all_to_host()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return logits


def made(name: str, size: models.Size) -> torch.nn.Module:
    with torch.device("meta"):
        if name in ("llama-decode", "llama-prefill"):
            model = models.Llama(size.llama, size.vocabulary)
        elif name == "llama-training":
            model = models.Llama(size.llama_training, size.vocabulary)
        elif name == "vit":
            model = models.Vit(size.vit, size.image)
        else:
            model = models.UNet(size.unet_channels)
    return models.filled(model, torch.float32 if name == "llama-training" else torch.float16)


def inputs_of(name: str, size: models.Size, model: torch.nn.Module, passes: int):
    """What a pass does with the model, as a function of it and of the pass's number."""
    numbers = torch.Generator().manual_seed(2)
    if name == "llama-decode":
        width = size.llama[1]
        longest = size.prompt + passes + 2
        caches = [
            tuple(torch.zeros(1, longest, width, dtype=torch.float16, device="cuda") for _ in "kv")
            for _ in range(size.llama[0])
        ]
        ids = torch.randint(0, size.vocabulary, (longest, 1, 1), generator=numbers).cuda()
        return lambda model, number: model(ids[number], None, caches, size.prompt + number)
    if name == "llama-prefill":
        ids = torch.randint(0, size.vocabulary, (1, size.prompt), generator=numbers).cuda()
        mask = torch.full((size.prompt, size.prompt), -1e4, dtype=torch.float16).triu(1).cuda()
        return lambda model, number: model(ids, mask)
    if name == "vit":
        image = torch.rand(4, 3, size.image, size.image, generator=numbers).half().cuda()
        return lambda model, number: model(image)
    latent = torch.rand(2, 4, size.latent, size.latent, generator=numbers).half().cuda()
    context = torch.rand(2, 77, model.context, generator=numbers).half().cuda()
    moment = torch.rand(2, model.channels, generator=numbers).half().cuda()
    return lambda model, number: model(latent, moment, context)


def moved_by_superpipe(command: str) -> tuple[int, int]:
    """What superpipe has moved so far for this process: bytes to the device, and to the host."""
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    found = subprocess.run(
        [command, "top", "--once", "--json", str(os.getpid())],
        env=clean,
        capture_output=True,
        text=True,
    )
    try:
        (process,) = json.loads(found.stdout.strip().splitlines()[-1])["processes"]
        return process["counts"]["h2d_bytes"], process["counts"]["d2h_bytes"]
    except (ValueError, KeyError, IndexError) as error:
        raise RuntimeError(
            f"{command} top: {error}: {found.stdout[:300]}{found.stderr[:300]}"
        ) from error


def link_rate(model: torch.nn.Module) -> float:
    """Bytes a second from pinned memory into the model's largest weight, the best of three
    copies."""
    target = max(model.parameters(), key=lambda parameter: parameter.numel()).data
    source = torch.empty(target.shape, dtype=target.dtype, pin_memory=True)
    best = 0.0
    for _ in range(3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        target.copy_(source, non_blocking=True)
        end.record()
        end.synchronize()
        best = max(best, target.numel() * target.element_size() / begin.elapsed_time(end) * 1e3)
    return best


def measured(options: argparse.Namespace) -> dict:
    size = models.SIZES[options.size]
    name = options.model
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")  # the context, which every program has
    base_bytes = host_bytes("VmRSS")
    model = made(name, size)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    layer_bytes = [
        sum(parameter.numel() * parameter.element_size() for parameter in layer.parameters())
        for layer in model.layers
    ]
    peer = peers.PEERS[options.peer]
    helper = peer.apply(model, options.knob)
    if name == "llama-training":
        ids = torch.randint(
            0,
            size.vocabulary,
            (1, size.training_tokens),
            generator=torch.Generator().manual_seed(2),
        ).cuda()
        program = Training(model, ids, helper)
    else:
        program = Inference(model, inputs_of(name, size, model, options.passes))
    torch.cuda.synchronize()
    pass_ms, first, moved_before = [], "", None
    for number in range(WARM + options.passes):
        if number == WARM and options.superpipe:
            moved_before = moved_by_superpipe(options.superpipe)
        begin = time.perf_counter()
        result = program.run(number)
        torch.cuda.synchronize()
        pass_ms.append(1e3 * (time.perf_counter() - begin))
        first = first or digest(result)
    answer = {
        "pass_ms": pass_ms[WARM:],
        "warm_ms": pass_ms[:WARM],
        "weights_bytes": weights,
        "layer_bytes": layer_bytes,
        "first_digest": first,
    }
    if options.superpipe:
        moved = moved_by_superpipe(options.superpipe)
        answer["moved_bytes"] = [
            (after - before) // options.passes for before, after in zip(moved_before, moved)
        ]
    answer["host_bytes"] = max(0, host_bytes("VmHWM") - base_bytes)
    # Before copies are counted: a dispatch mode has PyTorch choose other kernels for convolutions.
    answer["digest"] = digest(*(model.parameters() if name == "llama-training" else [result]))
    if options.count_copies:
        with CopiedBytes() as copied:
            program.run(WARM + options.passes)
            torch.cuda.synchronize()
        answer["moved_bytes"] = [copied.to_device, copied.to_host]
    if options.peer == "plain" and options.count_copies:
        answer["link_bytes_per_second"] = link_rate(model)  # overwrites a weight
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer", required=True, choices=peers.PEERS)
    parser.add_argument("--knob", type=int, default=0)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--size", choices=models.SIZES, default="small")
    parser.add_argument("--superpipe", default="")
    parser.add_argument("--count-copies", action="store_true")
    parser.add_argument("--one-thread", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit(f"torch {torch.__version__} sees no GPU")
    if options.one_thread:  # simgpu computes on the same processors
        torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False  # which algorithm is the fastest changes from run to run
    peers.DEVICE, peers.HOST = torch.device("cuda"), torch.device("cpu")
    print(json.dumps(measured(options)), flush=True)


if __name__ == "__main__":
    main()
