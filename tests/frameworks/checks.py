"""Operations of PyTorch, group by group, for the twin's own tests: each check is a function as the programs are."""

from __future__ import annotations

import ctypes

import torch

from programs import noise

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def to_host(**values: torch.Tensor) -> dict[str, torch.Tensor]:
    return {name: value.detach().cpu() for name, value in values.items()}


def views_and_in_place(device: str) -> dict[str, torch.Tensor]:
    matrix = noise(64, 48, device=device)
    rows, turned = matrix[8:24], matrix.t()
    rows.mul_(2).add_(1)
    turned[3].fill_(7)
    matrix[:, ::5].zero_()
    diagonal = matrix.diagonal()
    diagonal.copy_(torch.arange(48, device=device))
    expanded = matrix[:1].expand(5, 48) + 1
    matrix.transpose_(0, 1)
    return to_host(matrix=matrix, rows=rows, turned=turned, expanded=expanded, picked=matrix.as_strided((5, 3), (7, 2), 11))


def outputs(device: str) -> dict[str, torch.Tensor]:
    left, right = noise(32, 32, device=device), noise(32, 32, device=device, seed=5)
    product, resized = torch.empty(32, 32, device=device), torch.empty(0, device=device)
    torch.mm(left, right, out=product)
    torch.add(left, right, out=resized)
    lower, index = torch.empty(32, device=device), torch.empty(32, dtype=torch.long, device=device)
    torch.min(left, 1, out=(lower, index))
    grown = torch.zeros(4, device=device)
    grown.resize_(9)
    grown[4:] = 1
    return to_host(product=product, resized=resized, lower=lower, index=index, grown=grown)


def lists(device: str) -> dict[str, torch.Tensor]:
    tensors = [noise(size, device=device, seed=size) for size in (3, 400, 40000)]
    others = [tensor.clone() for tensor in tensors]
    torch._foreach_mul_(tensors, 0.5)
    torch._foreach_addcdiv_(tensors, others, torch._foreach_add(torch._foreach_abs(others), 1.0), value=0.1)
    norms = torch._foreach_norm(tensors)
    torch._foreach_copy_(others, tensors)
    return to_host(norms=torch.stack(norms), first=tensors[0], last=others[2])


def indexing(device: str) -> dict[str, torch.Tensor]:
    table = noise(50, 16, device=device)
    index = torch.tensor([4, 4, 9, 0], device=device)
    table.index_put_((index,), torch.ones(4, 16, device=device), accumulate=True)
    table[table > 1] = -1
    table[2, index] = 3
    scattered = torch.zeros(10, 16, device=device).scatter_(0, index[:, None].expand(4, 16), table[:4])
    added = torch.zeros(10, 16, device=device).index_add_(0, index, table[10:14])
    embedded = torch.nn.functional.embedding(index, table)
    gathered = table.gather(1, index[None].expand(50, 4))
    return to_host(table=table, scattered=scattered, added=added, embedded=embedded, gathered=gathered, chosen=table[table < 0],
                   where=torch.where(table > 0, table, 0.0), positions=(table > 0.5).nonzero(), taken=table[index, index])


def gradients(device: str) -> dict[str, torch.Tensor]:
    table = noise(20, 8, device=device).requires_grad_()
    weight = noise(8, 8, device=device, seed=6).requires_grad_()
    state = torch.nn.functional.embedding(torch.tensor([[1, 2, 1], [0, 19, 2]], device=device), table)
    state = torch.nn.functional.layer_norm(torch.nn.functional.gelu(state @ weight), (8,))
    (state.softmax(-1)[..., :3].log().mean() + state.cumsum(1).square().sum()).backward()
    return to_host(table=table.grad, weight=weight.grad)


def random(device: str) -> dict[str, torch.Tensor]:
    torch.manual_seed(11)
    drawn = torch.rand(100, device=device)
    normal = torch.empty(100, device=device).normal_(1, 2)
    # Half of the values are kept: their scale is exact, however a device computes it.
    dropped = torch.nn.functional.dropout(torch.ones(1000, device=device), 0.5, training=True)
    chosen = torch.multinomial(drawn, 5)
    return to_host(drawn=drawn, normal=normal, dropped_values=dropped.unique(), chosen=chosen, order=torch.randperm(50, device=device))


def sizes_from_data(device: str) -> dict[str, torch.Tensor]:
    numbers = (noise(200, device=device) * 3).long()
    values, inverse, counts = numbers.unique(return_inverse=True, return_counts=True)
    positive = numbers.masked_select(numbers > 0)
    repeated = torch.repeat_interleave(torch.arange(4, device=device), torch.tensor([2, 0, 3, 1], device=device))
    assert torch.equal(values[inverse], numbers) and bool((counts > 0).all()) and numbers.max().item() == numbers.cpu().max().item()
    return to_host(values=values, counts=counts, positive=positive, repeated=repeated, bins=torch.bincount(numbers.abs()))


def order(device: str) -> dict[str, torch.Tensor]:
    numbers = noise(6, 500, device=device)
    ordered, index = numbers.sort(-1)
    top = numbers.topk(9, -1)
    return to_host(ordered=ordered, index=index, top=top.values, best=numbers.argmax(-1), running=numbers.cumsum(0),
                   joined=torch.cat([numbers[:2], ordered[3:]]), half=numbers.half(), truth=numbers > 0)


def copies(device: str) -> dict[str, torch.Tensor]:
    host = noise(300, 200, device="cpu")
    turned = host.t().to(device)
    part = host[:, 3:9].to(device)
    narrow = host.to(device, torch.bfloat16)
    wide = host.bfloat16().to(device, torch.float64)
    target = torch.zeros(300, 200, device=device)
    target[5:9].copy_(host[:4])
    target[:, 1].copy_(host[:, 2].double())
    back = torch.zeros(200, 300)
    back.copy_(turned)
    back[0].copy_(target[:, 1])
    doubled = target.clone().mul_(2)
    return to_host(turned=turned, part=part, narrow=narrow, wide=wide, target=target, back=back, doubled=doubled, column=target[:, 1])


def inference(device: str) -> dict[str, torch.Tensor]:
    with torch.inference_mode():
        layer = torch.nn.Linear(24, 12)
        torch.nn.init.constant_(layer.weight, 0.25)
        torch.nn.init.zeros_(layer.bias)
        state = layer.to(device)(noise(2, 5, 24, device=device))
        return to_host(state=state, reshaped=state.transpose(0, 1).reshape(5, -1), mean=state.mean((0, 1)))


def streams(device: str) -> dict[str, torch.Tensor]:
    first = noise(4096, device=device)
    if device == "cpu":
        return to_host(sum=first + 1, staged=first)
    side, event = torch.cuda.Stream(), torch.cuda.Event()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        second = first + 1
        event.record()
    torch.cuda.current_stream().wait_event(event)
    second.record_stream(torch.cuda.current_stream())
    pinned = noise(4096, device="cpu").pin_memory()
    staged = pinned.to(device, non_blocking=True)
    landed = torch.empty(4096, pin_memory=True)
    landed.copy_(staged, non_blocking=True)
    torch.cuda.synchronize()
    return to_host(sum=second, staged=landed)


GROUPS = (views_and_in_place, outputs, lists, indexing, gradients, random, sizes_from_data, order, copies, inference, streams)


@check
def operations(device: str, passes: int) -> dict[str, torch.Tensor]:
    """All groups; each has to leave what it leaves on a CPU."""
    return {f"{group.__name__}.{name}": value for group in GROUPS for name, value in group(device).items()}


@check
def flipped_bit(device: str, passes: int) -> dict[str, torch.Tensor]:
    """One bit of device memory changes behind the twin's back; it has to be found before the next operation."""
    tensor = torch.zeros(1 << 20, device=device)
    torch.cuda.synchronize()
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuMemsetD8_v2(ctypes.c_uint64(tensor.data_ptr() + 123457), ctypes.c_ubyte(16), ctypes.c_size_t(1)) == 0
    return to_host(sum=tensor + 1)


@check
def flipped_bit_read_back(device: str, passes: int) -> dict[str, torch.Tensor]:
    """As flipped_bit, but the program only copies the tensor to the host."""
    tensor = torch.zeros(1 << 20, device=device)
    torch.cuda.synchronize()
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuMemsetD8_v2(ctypes.c_uint64(tensor.data_ptr() + 123457), ctypes.c_ubyte(16), ctypes.c_size_t(1)) == 0
    return to_host(tensor=tensor)
