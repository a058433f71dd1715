"""The programs that tests/frameworks run: small models with seeded weights and a few steps each, by PyTorch and what builds on it.

Each is a function of the device's name ("cuda" or "cpu") that gives a dictionary of tensors on the host. Weights and inputs
are drawn on the CPU, so that both devices begin with the same values. `passes` scales how long a program runs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch

PROGRAMS: dict[str, Callable[[str, int], dict[str, torch.Tensor]]] = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def tokens(batch: int, length: int, vocabulary: int, device: str) -> torch.Tensor:
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(1)).to(device)


def noise(*shape: int, device: str, seed: int = 2) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)


def values_of(model: torch.nn.Module, **others: torch.Tensor) -> dict[str, torch.Tensor]:
    """The model's parameters and `others`, on the host."""
    found = {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}
    return found | {name: value.detach().cpu() for name, value in others.items()}


# ---- Generation.


def llama() -> torch.nn.Module:
    import transformers

    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=1024, hidden_size=320, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4,
        max_position_embeddings=256, attn_implementation="eager", bos_token_id=1, eos_token_id=None, pad_token_id=0)).eval()


def gpt2(layers: int = 6) -> torch.nn.Module:
    import transformers

    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=1024, n_positions=128, n_embd=320, n_layer=layers, n_head=8, attn_implementation="eager",
        bos_token_id=1, eos_token_id=1023, pad_token_id=0))


def generated(model: torch.nn.Module, device: str, new: int, **options) -> dict[str, torch.Tensor]:
    model = model.to(device)
    prompt = tokens(2, 12, 1000, device)
    with torch.no_grad():
        answer = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new, min_new_tokens=new, use_cache=True,
                                return_dict_in_generate=True, output_logits=True, **options)
    return {"tokens": answer.sequences.cpu(), "logits": torch.stack(answer.logits).cpu()}


@program
def generate_llama(device: str, passes: int) -> dict[str, torch.Tensor]:
    return generated(llama(), device, 4 * passes, do_sample=False)


@program
def generate_gpt2_sampling(device: str, passes: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return generated(gpt2().eval(), device, 4 * passes, do_sample=True, top_k=20, top_p=0.9, temperature=0.8)


# ---- Training.


def loss_of(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """The model learns to predict the next token."""
    logits = model(input_ids=ids, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


def by_block(model: torch.nn.Module) -> list[dict]:
    """Groups of parameters, one for each block and one for the rest: all of a group is named by one launch of some optimizers."""
    blocks = [list(block.parameters()) for block in model.transformer.h]
    known = {parameter for block in blocks for parameter in block}
    rest = [parameter for parameter in model.parameters() if parameter not in known]
    return [{"params": group} for group in (*blocks, rest)]


def trained(device: str, passes: int, make_optimizer, parts: int = 1, checkpointing: bool = False) -> dict[str, torch.Tensor]:
    """`passes` steps; the gradients of one are summed over `parts` parts of its batch."""
    model = gpt2(4)
    model.config.resid_pdrop = 0.0
    model = model.to(device).train()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = make_optimizer(model)
    ids = tokens(4, 32, 1000, device)
    losses = []
    for _ in range(passes):
        optimizer.zero_grad()
        for part in ids.chunk(parts):
            loss = loss_of(model, part) / parts
            loss.backward()
            losses.append(loss.detach())
        optimizer.step()
    return values_of(model, losses=torch.stack(losses))


@program
def train_sgd(device: str, passes: int) -> dict[str, torch.Tensor]:
    return trained(device, passes, lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False))


@program
def train_adamw_foreach(device: str, passes: int) -> dict[str, torch.Tensor]:
    return trained(device, passes, lambda model: torch.optim.AdamW(by_block(model), lr=1e-3, foreach=True))


@program
def train_adamw_single(device: str, passes: int) -> dict[str, torch.Tensor]:
    return trained(device, passes, lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False))


@program
def train_adamw_fused(device: str, passes: int) -> dict[str, torch.Tensor]:
    return trained(device, passes, lambda model: torch.optim.AdamW(by_block(model), lr=1e-3, fused=True))


@program
def train_accumulating(device: str, passes: int) -> dict[str, torch.Tensor]:
    return trained(device, passes, lambda model: torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), parts=4)


@program
def train_checkpointing(device: str, passes: int) -> dict[str, torch.Tensor]:
    return trained(device, passes, lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False), checkpointing=True)


@program
def train_zeroth_order(device: str, passes: int) -> dict[str, torch.Tensor]:
    """MeZO (Malladi et al., 2023): two forward passes with perturbed weights, and no gradients."""
    model = gpt2(12).to(device).eval()
    ids = tokens(4, 32, 1000, device)
    losses = []

    def perturb(seed: int, scale: float) -> None:
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            direction = torch.randn(parameter.shape, generator=generator).to(device)
            parameter.add_(direction, alpha=scale)

    with torch.no_grad():
        for step in range(passes):
            perturb(step, 1e-3)
            above = loss_of(model, ids)
            perturb(step, -2e-3)
            below = loss_of(model, ids)
            perturb(step, 1e-3)
            slope = ((above - below) / 2e-3).item()
            perturb(step, -1e-2 * max(-10.0, min(10.0, slope)))
            losses += [above, below]
    return values_of(model, losses=torch.stack(losses))


# ---- Other kinds of models.


@program
def vit(device: str, passes: int) -> dict[str, torch.Tensor]:
    import timm

    torch.manual_seed(0)
    model = timm.create_model("vit_small_patch16_224", img_size=64, num_classes=100, depth=8).to(device).eval()
    for block in model.blocks:
        block.attn.fused_attn = False
    with torch.no_grad():
        results = [model(noise(2, 3, 64, 64, device=device, seed=step)) for step in range(passes)]
    return {"logits": torch.stack(results).cpu()}


@program
def bert(device: str, passes: int) -> dict[str, torch.Tensor]:
    import transformers

    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(
        vocab_size=2048, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=1536,
        attn_implementation="eager")).to(device).eval()
    ids = tokens(2, 48, 2000, device)
    mask = torch.ones_like(ids)
    mask[1, 30:] = 0
    with torch.no_grad():
        results = [model(input_ids=(ids + step) % 2000, attention_mask=mask).last_hidden_state for step in range(passes)]
    return {"states": torch.stack(results).cpu()}


class Block(torch.nn.Module):
    """A residual block of a UNet that knows the time step."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.before = torch.nn.GroupNorm(8, inputs)
        self.first = torch.nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = torch.nn.Linear(64, outputs)
        self.between = torch.nn.GroupNorm(8, outputs)
        self.second = torch.nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = torch.nn.Conv2d(inputs, outputs, 1) if inputs != outputs else torch.nn.Identity()

    def forward(self, image: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        state = self.first(torch.nn.functional.silu(self.before(image)))
        state = state + self.time(time)[:, :, None, None]
        return self.second(torch.nn.functional.silu(self.between(state))) + self.skip(image)


class UNet(torch.nn.Module):
    """Two levels down and up, with attention in the middle."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.into = torch.nn.Conv2d(3, width, 3, padding=1)
        self.down = torch.nn.ModuleList([Block(width, width), Block(width, 2 * width)])
        self.shrink = torch.nn.ModuleList([torch.nn.Conv2d(width, width, 3, stride=2, padding=1),
                                           torch.nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=1)])
        self.middle = Block(2 * width, 2 * width)
        self.attention = torch.nn.MultiheadAttention(2 * width, 4, batch_first=True)
        self.up = torch.nn.ModuleList([Block(4 * width, width), Block(2 * width, width)])
        self.out = torch.nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, image: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        rates = torch.exp(-torch.arange(32, device=image.device, dtype=torch.float32) / 4)
        angles = step[:, None].float() * rates[None]
        time = torch.cat([angles.sin(), angles.cos()], 1)
        state, kept = self.into(image), []
        for block, shrink in zip(self.down, self.shrink):
            state = block(state, time)
            kept.append(state)
            state = shrink(state)
        state = self.middle(state, time)
        batch, width, rows, columns = state.shape
        flat = state.flatten(2).transpose(1, 2)
        state = state + self.attention(flat, flat, flat)[0].transpose(1, 2).reshape(batch, width, rows, columns)
        for block, before in zip(self.up, reversed(kept)):
            state = torch.nn.functional.interpolate(state, scale_factor=2.0, mode="nearest")
            state = block(torch.cat([state, before], 1), time)
        return self.out(state)


def unet(device: str) -> torch.nn.Module:
    torch.manual_seed(0)
    return UNet(128).to(device)


@program
def diffusion_sampling(device: str, passes: int) -> dict[str, torch.Tensor]:
    """Steps of DDIM (Song et al., 2021), from noise."""
    model = unet(device).eval()
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0).to(device)
    image = noise(2, 3, 32, 32, device=device)
    times = torch.linspace(999, 0, passes + 1).long().tolist()
    with torch.no_grad():
        for now, then in zip(times, times[1:]):
            guess = model(image, torch.full((2,), now, device=device))
            clean = (image - (1 - kept[now]).sqrt() * guess) / kept[now].sqrt()
            image = kept[then].sqrt() * clean.clamp(-1, 1) + (1 - kept[then]).sqrt() * guess
    return {"image": image.cpu()}


@program
def diffusion_training(device: str, passes: int) -> dict[str, torch.Tensor]:
    model = unet(device).train()
    average = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0).to(device)
    losses = []
    for step in range(passes):
        clean, added = (noise(2, 3, 32, 32, device=device, seed=2 * step + each) for each in (0, 1))
        times = torch.randint(0, 1000, (2,), generator=torch.Generator().manual_seed(step)).to(device)
        level = kept[times][:, None, None, None]
        loss = torch.nn.functional.mse_loss(model(level.sqrt() * clean + (1 - level).sqrt() * added, times), added)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
        with torch.no_grad():
            for mean, parameter in zip(average.parameters(), model.parameters()):
                mean.lerp_(parameter, 0.1)
        losses.append(loss.detach())
    return values_of(average, losses=torch.stack(losses))
