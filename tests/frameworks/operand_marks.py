"""Marks the launches of each operation of PyTorch in superpipe's trace, and keeps the addresses of what the operation uses."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

import stale_words


class OperandMarks(TorchDispatchMode):
    """Inside `with`, each operation runs within a range of NVTX whose text is stale_words.mark() of its number."""

    def __init__(self) -> None:
        super().__init__()
        torch.empty(1, device="cuda")  # superpipe's trace begins with the first allocation, which would be within an operation
        self.operands: list[list[int]] = []  # of each operation by its number: where the storages begin that it got or gave

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        number = len(self.operands)
        self.operands.append(addresses((arguments, keywords)))
        torch.cuda.nvtx.range_push(stale_words.mark(number))
        try:
            result = operation(*arguments, **(keywords or {}))
        finally:
            torch.cuda.nvtx.range_pop()
        self.operands[number] = sorted({*self.operands[number], *addresses((arguments, keywords, result))})
        return result


def addresses(values: object) -> list[int]:
    """Where the device's storages of the tensors in `values` begin."""
    tensors = [each for each in tree_flatten(values)[0] if isinstance(each, torch.Tensor) and each.is_cuda]
    return [each.untyped_storage().data_ptr() for each in tensors]
