#!/usr/bin/env python3
"""Operations of PyTorch whose kernels take structs, each on tensors that are known: what a launch has to name.

Fills two tensors of its own, the marks, between any two steps: the launches between are those of one step. A step fills one
new tensor, or runs one operation; after it, a step that uses nothing touches the first byte of what it gave, on another stream.
superpipe writes a launch down as of when what it uses is there, and at the latest when another stream uses that. Prints one line
of JSON: for each step its name, and the numbers of the steps that filled the tensors that it uses. Runs with the async
allocator, which makes each tensor an allocation of its own.
"""

import json
import sys
import time

import torch

ROWS, COLUMNS = 256, 512


def touch(result: object) -> None:
    """Fills the first byte of each tensor in the device's memory that `result` consists of."""
    if not isinstance(result, torch.Tensor) or not result.is_cuda:
        return
    for part in [result._indices(), result._values()] if result.is_sparse else [result]:
        torch.tensor([], dtype=torch.uint8, device="cuda").set_(part.untyped_storage())[:1].fill_(1)


class Steps:
    def __init__(self) -> None:
        self.marks = [torch.empty(1000, device="cuda") for _ in range(2)]
        self.other = torch.cuda.Stream()
        self.steps: list[dict] = []
        self.numbers: dict[int, int] = {}  # by the tensor's address
        self.kept: list[torch.Tensor] = []  # so that no address comes again

    def end_step(self) -> None:
        torch.cuda.synchronize()
        time.sleep(0.02)  # for what nothing touches: buffers that an operation has for itself
        for mark in self.marks:
            mark.fill_(1)

    def step(self, name: str, function, operands: list[torch.Tensor]) -> None:
        self.steps.append({"name": name, "uses": sorted({self.numbers[each.untyped_storage().data_ptr()] for each in operands})})
        result = function()
        self.kept.append(result)
        self.end_step()
        self.steps.append({"name": "touch", "uses": []})
        with torch.cuda.stream(self.other):
            for each in result if isinstance(result, (list, tuple)) else [result]:
                touch(each)
        self.end_step()

    def tensor(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        made = torch.empty(shape, device="cuda", dtype=dtype)
        self.numbers[made.untyped_storage().data_ptr()] = len(self.steps)
        self.step("fill", lambda: made.fill_(1), [made])
        self.kept.append(made)
        return made

    def tensors(self, count: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
        return [self.tensor(*shape, dtype=dtype) for _ in range(count)]


def strided(steps: Steps) -> None:
    wide = [each[:, ::2] for each in steps.tensors(4, ROWS, COLUMNS)]
    a, b, c, d = wide
    steps.step("strided fill", lambda: a.fill_(1), [a])
    steps.step("strided unary", lambda: torch.neg(a, out=b), [a, b])
    steps.step("strided binary", lambda: torch.add(a, b, out=c), [a, b, c])
    steps.step("strided product", lambda: torch.mul(a, b, out=d), [a, b, d])
    steps.step("strided product with a number", lambda: torch.mul(a, 2.0, out=b), [a, b])
    steps.step("strided comparison with a number", lambda: torch.fmod(a, 3.0, out=c), [a, c])
    steps.step("strided copy", lambda: d.copy_(a), [a, d])
    steps.step("strided ternary", lambda: torch.addcmul(a, b, c, out=d), [a, b, c, d])
    steps.step("strided polynomial", lambda: torch.nn.functional.hardswish(a), [a])
    half = steps.tensor(ROWS, COLUMNS, dtype=torch.float16)
    steps.step("strided conversion", lambda: half[:, ::2].copy_(a), [a, half])
    e = steps.tensor(ROWS, COLUMNS)
    steps.step("mixed types", lambda: torch.add(half, e), [half, e])
    steps.step("strided mixed types", lambda: torch.add(half[:, ::2], e[:, ::2]), [half, e])
    image = steps.tensor(4, 8, 32, 64)[..., ::2]
    weights = steps.tensors(4, 8)
    steps.step("batch norm", lambda: torch.nn.functional.batch_norm(image, weights[0], weights[1], weights[2], weights[3]),
               [image, *weights[1:]])  # the mean is copied first


def reductions(steps: Steps) -> None:
    for dtype in (torch.float32, torch.float16, torch.float64, torch.complex128, torch.int64):
        x = steps.tensor(ROWS, COLUMNS, dtype=dtype)
        row = steps.tensor(COLUMNS, dtype=dtype)
        steps.step(f"sum {dtype}", lambda: torch.sum(x, 0, out=row), [x, row])
        if dtype is torch.int64:
            continue
        steps.step(f"mean {dtype}", lambda: torch.mean(x, 0, out=row), [x, row])
        steps.step(f"sum of all {dtype}", lambda: x.sum(), [x])
        if dtype.is_complex:
            continue
        places = steps.tensor(COLUMNS, dtype=torch.int64)
        steps.step(f"max {dtype}", lambda: torch.max(x, 0, out=(row, places)), [x, row, places])
        steps.step(f"argmin {dtype}", lambda: torch.argmin(x, 0, out=places), [x, places])
        steps.step(f"variance {dtype}", lambda: torch.var(x, 0, out=row), [x, row])
        steps.step(f"norm {dtype}", lambda: torch.linalg.vector_norm(x, dim=0, out=row), [x, row])
        least, most = steps.tensors(2, COLUMNS, dtype=dtype)
        steps.step(f"aminmax {dtype}", lambda: torch.aminmax(x, dim=0, out=(least, most)), [x, least, most])


def lists(steps: Steps) -> None:
    for count in (2, 5, 40):
        a, b, c, d = (steps.tensors(count, 1000) for _ in range(4))
        for name, function, used in (
                ("mul", lambda: torch._foreach_mul_(a, 2.0), a), ("add", lambda: torch._foreach_add_(a, b), a + b),
                ("addcmul", lambda: torch._foreach_addcmul_(a, b, c), a + b + c), ("sqrt", lambda: torch._foreach_sqrt(a), a),
                ("lerp", lambda: torch._foreach_lerp_(a, b, 0.5), a + b), ("norm", lambda: torch._foreach_norm(a), a),
                ("mul by scalars", lambda: torch._foreach_mul_(a, [1.0 + i for i in range(count)]), a),
                ("addcdiv by scalars", lambda: torch._foreach_addcdiv_(a, b, c, [1.0] * count), a + b + c),
                ("copy", lambda: torch._foreach_copy_(a, d), a + d)):
            steps.step(f"foreach {name} of {count}", function, used)
        at = steps.tensors(count, 1)
        settings = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}
        steps.step(f"fused adamw of {count}", lambda: torch._fused_adamw_(a, b, c, d, [], at, amsgrad=False, **settings), a + b + c + d + at)
        e = steps.tensors(count, 1000)
        steps.step(f"fused amsgrad of {count}", lambda: torch._fused_adamw_(a, b, c, d, e, at, amsgrad=True, **settings),
                   a + b + c + d + e + at)
        steps.step(f"fused sgd of {count}", lambda: torch._fused_sgd_(
            a, b, c, weight_decay=0.0, momentum=0.9, lr=1e-3, dampening=0.0, nesterov=False, maximize=False, is_first_step=False), a + b + c)
        whole = steps.tensor(1000 * count)
        steps.step(f"cat of {count}", lambda: torch.cat(a, out=whole), [*a, whole])
        planes = [each.view(10, 100) for each in a]
        wide = steps.tensor(10, 100 * count)
        steps.step(f"cat of {count} in columns", lambda: torch.cat(planes, 1, out=wide), [*planes, wide])
        steps.step(f"stack of {count} halves", lambda: torch.cat([each[:, ::2] for each in planes], 1), planes)


def indexed(steps: Steps) -> None:
    x = steps.tensor(ROWS, COLUMNS)
    rows = steps.tensor(64, dtype=torch.int64)
    some = steps.tensor(64, COLUMNS)
    steps.step("index", lambda: x[rows], [x, rows])
    steps.step("index put", lambda: x.index_put_((rows,), some), [x, rows, some])
    steps.step("index select", lambda: torch.index_select(x, 0, rows, out=some), [x, rows, some])
    steps.step("index add", lambda: x.index_add_(0, rows, some), [x, rows, some])
    mask = steps.tensor(ROWS, COLUMNS, dtype=torch.bool)
    steps.step("masked fill", lambda: x.masked_fill_(mask, 1.0), [x, mask])
    steps.step("where", lambda: torch.where(mask[:, ::2], x[:, ::2], some[0, 0]), [x, mask, some])
    steps.step("dropout", lambda: torch.nn.functional.dropout(x, 0.5), [x])
    steps.step("strided dropout", lambda: torch.nn.functional.dropout(x.t()[::2], 0.5), [x])


def sparse(steps: Steps) -> None:
    made: list[torch.Tensor] = []

    def matrix() -> torch.Tensor:
        indices = steps.tensor(2, 500, dtype=torch.int64)
        values = steps.tensor(500)
        made.append(torch.sparse_coo_tensor(indices, values, (ROWS, COLUMNS), check_invariants=False, is_coalesced=True))
        return made[-1]

    one, other = matrix(), matrix()
    used = [each for tensor in (one, other) for each in (tensor._indices(), tensor._values())]
    steps.step("sparse product", lambda: one * other, used)
    steps.step("sparse mask", lambda: one.sparse_mask(other), used)


def attention(steps: Steps) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for backend, name in ((SDPBackend.FLASH_ATTENTION, "flash"), (SDPBackend.EFFICIENT_ATTENTION, "efficient")):
        q, k, v = (each.requires_grad_() for each in steps.tensors(3, 2, 4, 64, 64, dtype=torch.float16))
        gradient = steps.tensor(2, 4, 64, 64, dtype=torch.float16)
        results: list[torch.Tensor] = []

        def forward() -> torch.Tensor:
            with sdpa_kernel(backend):
                results.append(torch.nn.functional.scaled_dot_product_attention(q, k, v))
            return results[0]

        steps.step(f"{name} attention", forward, [q, k, v])
        steps.step(f"{name} attention backward", lambda: results[0].backward(gradient), [q, k, v, gradient])


def main() -> int:
    torch.backends.cudnn.enabled = False
    steps = Steps()
    steps.end_step()
    for group in (strided, reductions, lists, indexed, sparse, attention):
        group(steps)
    torch.cuda.synchronize()
    print(json.dumps({"steps": steps.steps}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
