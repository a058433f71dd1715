#!/usr/bin/env python3
"""Programs of kinds that people run, with digests of what each step gives: zoo.py CASE."""

import ctypes
import hashlib
import json
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
CASES = {}
SMALL = os.environ.get("ZOO_SMALL")


def case(function):
    CASES[function.__name__] = function
    return function


class Steps:
    def __init__(self, wait):
        self.wait, self.ms, self.digests, self.extra = wait, [], [], {}

    def __call__(self, step):
        self.wait()
        begin = time.perf_counter()
        result = step()
        self.wait()
        self.ms.append(round(1e3 * (time.perf_counter() - begin), 2))
        self.digests.append(digest(result))


def digest(value):
    found = hashlib.sha256()
    def add(part):
        if isinstance(part, (list, tuple)):
            for each in part:
                add(each)
        elif isinstance(part, dict):
            for each in part.values():
                add(each)
        elif hasattr(part, "detach"):
            host = part.detach().cpu().contiguous()
            size = host.numel() * host.element_size()
            if size:
                found.update((ctypes.c_char * size).from_address(host.data_ptr()))
        elif hasattr(part, "tobytes"):
            found.update(part.tobytes())
        elif hasattr(part, "__array__"):
            import numpy
            found.update(numpy.asarray(part).tobytes())
        else:
            found.update(repr(part).encode())
    add(value)
    return found.hexdigest()[:16]


def torch_setup():
    import torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    if device == "cuda":
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_cudnn_sdp(False)
    return torch, device, Steps(torch.cuda.synchronize if device == "cuda" else lambda: None)


def size(full, small):
    return small if SMALL else full


@case
def gpt2_amp():
    torch, device, steps = torch_setup()
    import transformers
    config = transformers.GPT2Config(n_embd=size(1024, 64), n_layer=size(20, 2), n_head=size(16, 4), vocab_size=size(32000, 128),
                                     resid_pdrop=0.1)
    model = transformers.GPT2LMHeadModel(config).to(device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
    scaler = torch.amp.GradScaler(device)
    ids = torch.randint(0, config.vocab_size, (8, size(512, 16)), generator=torch.Generator().manual_seed(1))
    def step():
        batch = ids.to(device, non_blocking=True)
        with torch.autocast(device, dtype=torch.float16 if device == "cuda" else torch.bfloat16):
            loss = model(input_ids=batch, labels=batch).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss, norm
    for _ in range(6):
        steps(step)
    steps.digests.append(digest(list(model.state_dict().values())))
    path = f"/dev/shm/zoo-{os.getpid()}.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    steps.extra["checkpoint_bytes"] = os.path.getsize(path)
    loaded = torch.load(path, map_location="cpu")
    os.unlink(path)
    steps.digests.append(digest([value for state in loaded["optimizer"]["state"].values() for value in state.values()]))
    return steps


@case
def resnet():
    torch, device, steps = torch_setup()
    import timm
    model = timm.create_model(size("resnet50", "resnet10t")).to(device, memory_format=torch.channels_last)
    model.train()
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return size(64 * 8, 8)
        def __getitem__(self, index):
            generator = torch.Generator().manual_seed(index)
            return torch.rand(3, 224, 224, generator=generator), index % 1000
    loader = torch.utils.data.DataLoader(Data(), batch_size=size(64, 4), num_workers=2, pin_memory=device == "cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for images, labels in loader:
        def step():
            x = images.to(device, non_blocking=True, memory_format=torch.channels_last)
            y = labels.to(device, non_blocking=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss
        steps(step)
    steps.digests.append(digest(list(model.state_dict().values())))
    return steps


@case
def vit_compile():
    torch, device, steps = torch_setup()
    import timm
    model = timm.create_model(size("vit_large_patch16_224", "vit_tiny_patch16_224")).to(device).eval()
    compiled = torch.compile(model)
    images = torch.rand(size(32, 2), 3, 224, 224, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        for _ in range(8):
            steps(lambda: compiled(images.to(device)))
    return steps


def llama(torch, device, dtype, layers, hidden, **more):
    import transformers
    config = transformers.LlamaConfig(vocab_size=size(32000, 256), hidden_size=size(hidden, 64), intermediate_size=size(hidden * 11 // 4, 128),
                                      num_hidden_layers=size(layers, 2), num_attention_heads=size(16, 4), max_position_embeddings=2048, **more)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    return model, config


@case
def compile_graphs():
    torch, device, steps = torch_setup()
    model, config = llama(torch, device, torch.bfloat16, 8, 2048, use_cache=False)
    model.eval()
    compiled = torch.compile(lambda ids: model(input_ids=ids, use_cache=False).logits, mode="reduce-overhead")
    ids = torch.randint(0, config.vocab_size, (2, size(128, 8)), generator=torch.Generator().manual_seed(1)).to(device)
    with torch.inference_mode():
        for _ in range(8):
            steps(lambda: compiled(ids).clone())
    return steps


@case
def manual_graph():
    torch, device, steps = torch_setup()
    width = size(4096, 64)
    layers = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(12)]).to(device).eval()
    static = torch.zeros(256, width, device=device)
    with torch.inference_mode():
        if device == "cpu":
            for _ in range(4):
                steps(lambda: layers(static))
            return steps
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                layers(static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = layers(static)
        for index in range(8):
            static.copy_(torch.rand(256, width, generator=torch.Generator().manual_seed(index)))
            def step():
                graph.replay()
                return out
            steps(step)
    return steps


@case
def decode():
    torch, device, steps = torch_setup()
    model, config = llama(torch, device, torch.bfloat16 if device == "cuda" else torch.float32, 24, 2048)
    model.eval()
    ids = torch.randint(0, config.vocab_size, (4, 64), generator=torch.Generator().manual_seed(1)).to(device)
    model.generation_config.pad_token_id = 0
    for _ in range(4):
        steps(lambda: model.generate(ids, max_new_tokens=size(16, 4), do_sample=False))
    return steps


@case
def lora():
    torch, device, steps = torch_setup()
    import peft
    model, config = llama(torch, device, torch.bfloat16, 20, 2048, use_cache=False)
    model = peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules=["q_proj", "v_proj", "down_proj"], lora_dropout=0.0))
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-3)
    ids = torch.randint(0, config.vocab_size, (4, size(512, 16)), generator=torch.Generator().manual_seed(1)).to(device)
    def step():
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss
    for _ in range(6):
        steps(step)
    return steps


@case
def unet():
    torch, device, steps = torch_setup()
    nn = torch.nn
    class Block(nn.Module):
        def __init__(self, inner, outer):
            super().__init__()
            self.parts = nn.Sequential(nn.GroupNorm(8, inner), nn.SiLU(), nn.Conv2d(inner, outer, 3, padding=1), nn.GroupNorm(8, outer), nn.SiLU(),
                                       nn.Conv2d(outer, outer, 3, padding=1))
            self.skip = nn.Conv2d(inner, outer, 1)
        def forward(self, x):
            return self.parts(x) + self.skip(x)
    class UNet(nn.Module):
        def __init__(self, widths):
            super().__init__()
            self.first = nn.Conv2d(4, widths[0], 3, padding=1)
            self.down = nn.ModuleList(Block(a, b) for a, b in zip(widths[:-1], widths[1:]))
            self.attention = nn.MultiheadAttention(widths[-1], 8, batch_first=True)
            self.up = nn.ModuleList(Block(2 * b, a) for a, b in reversed(list(zip(widths[:-1], widths[1:]))))
            self.last = nn.Conv2d(widths[0], 4, 3, padding=1)
        def forward(self, x):
            x = self.first(x)
            kept = []
            for block in self.down:
                x = block(x)
                kept.append(x)
                x = nn.functional.avg_pool2d(x, 2)
            b, c, h, w = x.shape
            flat = x.flatten(2).transpose(1, 2)
            x = x + self.attention(flat, flat, flat, need_weights=False)[0].transpose(1, 2).reshape(b, c, h, w)
            for block, other in zip(self.up, reversed(kept)):
                x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
                x = block(torch.cat([x, other], 1))
            return self.last(x)
    model = UNet(size([320, 640, 1280, 2560, 2560], [16, 32, 64])).to(device, torch.float16 if device == "cuda" else torch.float32,
                                                                  memory_format=torch.channels_last).eval()
    state = torch.randn(2, 4, size(64, 16), size(64, 16), generator=torch.Generator().manual_seed(1)).to(device, next(model.parameters()).dtype)
    with torch.inference_mode():
        for _ in range(12):
            def step():
                nonlocal state
                state = (state - 0.1 * model(state)).contiguous()
                return state
            steps(step)
    return steps


@case
def linalg():
    torch, device, steps = torch_setup()
    count, n = size(64, 4), size(512, 16)
    generator = torch.Generator().manual_seed(3)
    blocks = [torch.rand(count, n, n, generator=generator).to(device) + n * torch.eye(n, device=device) for _ in range(size(10, 2))]
    right = torch.rand(count, n, 8, generator=generator).to(device)
    for _ in range(4):
        def step():
            found = []
            for block in blocks:
                lu, pivots = torch.linalg.lu_factor(block)
                found.append(torch.linalg.lu_solve(lu, pivots, right).sum())
                low = torch.linalg.cholesky(block @ block.transpose(1, 2))
                found.append(torch.cholesky_solve(right, low).sum())
                found.append(torch.linalg.inv(block[:4]).sum())
                found.append(torch.linalg.solve_triangular(low, right, upper=False).sum())
                found.append(torch.fft.fft2(block).abs().sum())
                found.append(torch.sort(block.reshape(count, -1), dim=1).values[:, ::97].sum())
                found.append(torch.linalg.eigvalsh(block[:2] + block[:2].transpose(1, 2)).sum())
            return found
        steps(step)
    return steps


@case
def streams():
    torch, device, steps = torch_setup()
    if device == "cpu":
        return steps
    n, count = size(4096, 64), size(24, 4)
    weights = [torch.randn(n, n, generator=torch.Generator().manual_seed(each)).pin_memory() for each in range(count)]
    held = [torch.randn(n, n, device=device) for _ in range(count)]
    copies, work = torch.cuda.Stream(), [torch.cuda.Stream() for _ in range(3)]
    back = [torch.empty(n, n).pin_memory() for _ in range(3)]
    for _ in range(6):
        def step():
            x = torch.ones(64, n, device=device)
            outs = [x.clone() for _ in work]
            for stream, out in zip(work, outs):
                stream.wait_stream(torch.cuda.current_stream())
                out.record_stream(stream)
            for index, weight in enumerate(weights):
                with torch.cuda.stream(copies):
                    there = weight.to(device, non_blocking=True)
                    ready = copies.record_event()
                stream = work[index % 3]
                with torch.cuda.stream(stream):
                    stream.wait_event(ready)
                    there.record_stream(stream)
                    outs[index % 3] = torch.tanh(outs[index % 3] @ there + outs[index % 3] @ held[index])
                    outs[index % 3].record_stream(stream)
                    if index % 4 == 0:
                        held[index].add_(there, alpha=1e-3)
                        back[index % 3].copy_(held[index], non_blocking=True)
            for stream in work:
                torch.cuda.current_stream().wait_stream(stream)
            torch.cuda.synchronize()
            return outs, [each.sum() for each in back]
        steps(step)
    return steps


@case
def moe():
    torch, device, steps = torch_setup()
    experts, hidden, inner = size(32, 4), size(1024, 32), size(4096, 64)
    up = torch.randn(experts, hidden, inner, device=device, dtype=torch.bfloat16) / 32
    down = torch.randn(experts, inner, hidden, device=device, dtype=torch.bfloat16) / 64
    big = [torch.randn(experts, hidden, inner, device=device, dtype=torch.bfloat16) / 32 for _ in range(size(6, 1))]
    router = torch.randn(hidden, experts, device=device)
    x = torch.randn(size(2048, 64), hidden, device=device)
    for _ in range(6):
        def step():
            state = x
            for extra in big:
                scores, chosen = torch.topk(torch.softmax(state @ router, -1), 2)
                out = torch.zeros_like(state)
                for expert in range(experts):
                    rows, slot = torch.where(chosen == expert)
                    if rows.numel() == 0:
                        continue
                    part = state[rows].to(torch.bfloat16)
                    part = torch.relu(part @ up[expert] + part @ extra[expert]) @ down[expert]
                    out[rows] = out[rows] + part.float() * scores[rows, slot, None]
                state = torch.nn.functional.layer_norm(state + out, (hidden,))
            return state
        steps(step)
    if device == "cuda" and hasattr(torch, "_grouped_mm"):
        tokens = size(2048, 64)
        offsets = torch.arange(1, experts + 1, device=device, dtype=torch.int32) * (tokens // experts)
        a = x[:tokens].to(torch.bfloat16)
        for _ in range(3):
            steps(lambda: [torch._grouped_mm(a, each, offs=offsets) for each in (up, *big)])
    return steps


@case
def fp8():
    torch, device, steps = torch_setup()
    if device == "cpu":
        return steps
    n = size(8192, 256)
    weights = [torch.randn(n, n, device=device).to(torch.float8_e4m3fn).t() for _ in range(size(24, 2))]
    one = torch.ones((), device=device)
    x = torch.randn(512, n, device=device)
    for _ in range(6):
        def step():
            state = x
            for weight in weights:
                state = torch._scaled_mm((state / 16).to(torch.float8_e4m3fn), weight, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
                state = torch.nn.functional.layer_norm(state.float(), (n,))
            return state
        steps(step)
    return steps


@case
def triton_tma():
    torch, device, steps = torch_setup()
    if device == "cpu":
        return steps
    import zoo_triton
    n = size(8192, 256)
    weights = [torch.randn(n, n, device=device, dtype=torch.bfloat16) / 90 for _ in range(size(24, 2))]
    x = torch.randn(256, n, device=device, dtype=torch.bfloat16)
    for _ in range(6):
        def step():
            state = x
            for weight in weights:
                state = torch.tanh(zoo_triton.multiply(state, weight))
            return state
        steps(step)
    return steps


@case
def jax_train():
    import jax
    import jax.numpy as jnp
    width, count = size(4096, 64), size(12, 2)
    steps = Steps(lambda: None)
    keys = jax.random.split(jax.random.PRNGKey(0), count)
    params = [jax.random.normal(key, (width, width)) / width**0.5 for key in keys]
    state = ([jnp.zeros_like(each) for each in params], [jnp.zeros_like(each) for each in params])
    x = jax.random.normal(jax.random.PRNGKey(9), (256, width))
    def loss(params, x):
        for each in params:
            x = jax.nn.gelu(x @ each)
        return jnp.mean(x**2)
    def update(params, state, x):
        value, gradients = jax.value_and_grad(loss)(params, x)
        first = [0.9 * m + 0.1 * g for m, g in zip(state[0], gradients)]
        second = [0.99 * v + 0.01 * g * g for v, g in zip(state[1], gradients)]
        params = [p - 1e-3 * m / (jnp.sqrt(v) + 1e-8) for p, m, v in zip(params, first, second)]
        return params, (first, second), value
    jitted = jax.jit(update, donate_argnums=(0, 1))
    for _ in range(8):
        def step():
            nonlocal params, state
            params, state, value = jitted(params, state, x)
            return jax.device_get(value)
        steps(step)
    steps.digests.append(digest([jax.device_get(each) for each in params]))
    return steps


@case
def cupy_mix():
    import cupy
    steps = Steps(cupy.cuda.runtime.deviceSynchronize)
    n, count = size(4096, 64), size(30, 2)
    generator = cupy.random.RandomState(5)
    arrays = [generator.standard_normal((n, n), dtype=cupy.float32) for _ in range(count)]
    kernel = cupy.RawKernel("extern \"C\" __global__ void scale(float* x, const float* y, long long n) {"
                            " long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) x[i] = x[i] * 0.5f + y[i]; }", "scale")
    for _ in range(5):
        def step():
            total = []
            for one, two in zip(arrays, arrays[1:]):
                kernel((n * n // 256,), (256,), (one, two, cupy.int64(n * n)))
                total.append((one @ two[:, :64]).sum())
                total.append(cupy.fft.fft(one[:64]).real.sum())
                total.append(cupy.sort(one[:32].ravel())[::1000].sum())
            for one in arrays[::3]:
                batch = one.reshape(-1, 256, 256)[:64] + 256 * cupy.eye(256, dtype=cupy.float32)
                total.append(cupy.linalg.inv(batch).sum())
                total.append(cupy.linalg.solve(batch, batch[:, :, :8]).sum())
            return [cupy.asnumpy(each) for each in total]
        steps(step)
    return steps


@case
def lightning():
    torch, device, steps = torch_setup()
    import pytorch_lightning as pl
    import logging, warnings
    warnings.simplefilter("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    width = size(4096, 64)
    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(12)],
                                           torch.nn.Linear(width, 10))
        def training_step(self, batch, index):
            loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            steps.digests.append(digest(loss))
            return loss
        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-4)
    data = torch.utils.data.TensorDataset(torch.rand(size(1024, 64), width, generator=torch.Generator().manual_seed(1)), torch.arange(size(1024, 64)) % 10)
    trainer = pl.Trainer(max_epochs=1, precision="bf16-mixed", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    net = Net()
    steps(lambda: trainer.fit(net, torch.utils.data.DataLoader(data, batch_size=size(128, 16))))
    steps.digests.append(digest(list(net.state_dict().values())))
    return steps


@case
def offload():
    """The model of torch_inference.py with accelerate's own offloading: OFFLOAD_GPU says how much of the device it may have."""
    torch, device, steps = torch_setup()
    import accelerate
    model, config = llama(torch, "cpu", torch.bfloat16, 24, 2048, use_cache=False)
    model.eval()
    if os.environ.get("OFFLOAD_GPU"):
        gib = float(os.environ["OFFLOAD_GPU"])
        devices = accelerate.infer_auto_device_map(model, max_memory={0: int(gib * 2**30), "cpu": 100 * 2**30},
                                                   no_split_module_classes=["LlamaDecoderLayer"])
        for name, value in model.named_parameters():
            pass
        model = accelerate.dispatch_model(model, device_map=devices, offload_buffers=False)
    else:
        model = model.to(device)
    ids = torch.randint(0, config.vocab_size, (4, size(256, 8)), generator=torch.Generator().manual_seed(1)).to(device)
    with torch.inference_mode():
        for _ in range(8):
            steps(lambda: model(input_ids=ids, use_cache=False).logits)
    return steps


def main():
    name = sys.argv[1]
    begin = time.time()
    steps = CASES[name]()
    result = {"case": name, "ms": steps.ms, "digests": steps.digests, "all": digest(steps.digests), "seconds": round(time.time() - begin, 1), **steps.extra}
    if "torch" in sys.modules:
        import torch
        if torch.cuda.is_available():
            result["reserved"] = torch.cuda.max_memory_reserved()
            result["allocated"] = torch.cuda.max_memory_allocated()
            result["allocator"] = torch.cuda.get_allocator_backend()
    print("ZOO " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
