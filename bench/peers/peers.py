"""What a user writes to run a model that does not fit the device, with each of the tools that are
compared.

A peer's function is what its user adds to a script in place of `model.cuda()`; its lines, and those
of what it names in `also`, are counted as lines changed. `knob` is what the peer has to say how
much of the device it may take.
"""

from __future__ import annotations

import inspect
import io
import tokenize
from dataclasses import dataclass, field
from typing import Callable


@dataclass(frozen=True)
class Peer:
    name: str  # as the table has it
    apply: Callable  # of the model and the knob
    knob: str = ""  # "layers", "bytes", or "": it takes what it takes
    trains: bool = False
    steps_on_host: bool = False  # its optimizer computes on the host
    why_not: str = ""  # why it cannot train
    packages: tuple[str, ...] = ("torch",)
    also: tuple = field(default=())
    remark: str = ""

    def lines_changed(self) -> int:
        """Lines of code in the function and in what it needs, without `def`, comments and
        documentation."""
        return sum(code_lines(inspect.getsource(part)) - 1 for part in (self.apply, *self.also))


def code_lines(source: str) -> int:
    """Lines of code, each statement one however it is wrapped; no comments and no documentation."""
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines, kinds = 0, set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            lines += bool(kinds - {tokenize.STRING})
            kinds = set()
        elif token.type not in ignored:
            kinds.add(token.type)
    return lines


def plain(model, knob):
    model.cuda()


def accelerate_cpu_offload(model, knob):
    from accelerate import cpu_offload

    cpu_offload(model, execution_device="cuda:0")


def accelerate_dispatch(model, knob):
    from accelerate import dispatch_model, infer_auto_device_map

    device_map = infer_auto_device_map(
        model,
        max_memory={0: knob, "cpu": "1000GiB"},
        no_split_module_classes=[type(layer).__name__ for layer in model.layers],
    )
    dispatch_model(model, device_map, main_device=0)


def group_blocks(model, knob):
    from diffusers.hooks import apply_group_offloading

    apply_group_offloading(
        model,
        onload_device=DEVICE,
        offload_device=HOST,
        offload_type="block_level",
        num_blocks_per_group=knob,
    )


def group_blocks_streams(model, knob):
    from diffusers.hooks import apply_group_offloading

    apply_group_offloading(
        model,
        onload_device=DEVICE,
        offload_device=HOST,
        offload_type="block_level",
        num_blocks_per_group=1,
        use_stream=True,
        record_stream=True,
    )


def group_leaves_streams(model, knob):
    from diffusers.hooks import apply_group_offloading

    apply_group_offloading(
        model,
        onload_device=DEVICE,
        offload_device=HOST,
        offload_type="leaf_level",
        use_stream=True,
        record_stream=True,
    )


def fsdp_for_inference(model, knob):
    import torch.distributed as dist
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    dist.init_process_group("cpu:gloo,cuda:nccl", store=dist.HashStore(), rank=0, world_size=1)
    for index, layer in enumerate(model.layers):
        fully_shard(layer, reshard_after_forward=index >= knob, offload_policy=CPUOffloadPolicy())
    fully_shard(model, offload_policy=CPUOffloadPolicy())


def fsdp_for_training(model, knob):
    import torch.distributed as dist
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    dist.init_process_group("cpu:gloo,cuda:nccl", store=dist.HashStore(), rank=0, world_size=1)
    for layer in model.layers:
        fully_shard(layer, offload_policy=CPUOffloadPolicy())
    fully_shard(model, offload_policy=CPUOffloadPolicy())


class ForwardHooks:
    """Superpipeline (Abbasi and Lim, 2024) as hooks: k of the layers are on the device, and k' at a
    time leave and arrive.

    Where gradients are recomputed layer by layer, the layers are called again from the last to the
    first.
    """

    def __init__(self, layers, k, k_prime):
        self.layers, self.k, self.k_prime = list(layers), min(k, len(layers)), k_prime
        self.present, self.last = [], -1
        for index, layer in enumerate(self.layers):
            layer.register_forward_pre_hook(lambda module, inputs, index=index: self.enter(index))

    def enter(self, index):
        begins = index == 0 and self.last == len(self.layers) - 1
        step = 1 if index > self.last or begins else -1
        self.last = index
        if index in self.present:
            return
        wanted = range(index, index + step * (self.k if not self.present else self.k_prime), step)
        wanted = [
            other for other in wanted if 0 <= other < len(self.layers) and other not in self.present
        ]
        while len(self.present) + len(wanted) > self.k:
            self.move(self.present.pop(0), "cpu")
        for other in wanted:
            self.move(other, "cuda")
            self.present.append(other)

    def move(self, index, device):
        self.layers[index].to(device)

    def all_to_host(self):
        while self.present:
            self.move(self.present.pop(0), "cpu")
        self.last = -1


def forward_hooks(model, knob):
    for name, child in model.named_children():
        if name != "layers":
            child.cuda()
    for parameter in model.parameters(recurse=False):
        parameter.data = parameter.data.cuda()
    return ForwardHooks(model.layers, knob, max(1, knob // 2))


DEVICE = HOST = (
    None  # torch.device of each; the worker sets them, as a script would have them at hand
)

PEERS = {
    "plain": Peer("plain PyTorch, all of it on the device", plain, trains=True),
    "cpu-offload": Peer(
        "accelerate cpu_offload",
        accelerate_cpu_offload,
        packages=("torch", "accelerate"),
        why_not="its hooks leave no weights for backward",
    ),
    "dispatch": Peer(
        "accelerate dispatch_model",
        accelerate_dispatch,
        "bytes",
        packages=("torch", "accelerate"),
        why_not="its hooks leave no weights for backward",
    ),
    "group-blocks": Peer(
        "diffusers group offloading, blocks",
        group_blocks,
        "layers",
        packages=("torch", "diffusers"),
        why_not="for inference only",
    ),
    "group-blocks-streams": Peer(
        "diffusers group offloading, blocks, streams",
        group_blocks_streams,
        packages=("torch", "diffusers"),
        why_not="for inference only",
        remark="with streams diffusers takes one block for each group",
    ),
    "group-leaves-streams": Peer(
        "diffusers group offloading, leaves, streams",
        group_leaves_streams,
        packages=("torch", "diffusers"),
        why_not="for inference only",
    ),
    "fsdp": Peer("FSDP2 CPUOffloadPolicy", fsdp_for_inference, "layers"),
    "fsdp-training": Peer(
        "FSDP2 CPUOffloadPolicy", fsdp_for_training, trains=True, steps_on_host=True
    ),
    "hooks": Peer(
        "the paper's method as forward hooks",
        forward_hooks,
        "layers",
        trains=True,
        steps_on_host=True,
        also=(ForwardHooks,),
    ),
}
