"""The models that peers are compared with: plain PyTorch, in the proportions of models that people
run, with seeded weights.

Each is written as its user would write it and knows of no offloading. `layers` of a model are the
modules that repeat, in the order of their execution; what lies outside them is small.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Size:
    """How large each model is."""

    llama: tuple[int, int, int]  # layers, width, width of the feed-forward
    llama_training: tuple[int, int, int]
    vit: tuple[int, int, int]
    unet_channels: int  # of the outermost blocks, 320 in Stable Diffusion
    vocabulary: int
    prompt: int  # tokens of prefill
    training_tokens: int
    image: int  # pixels on each side, in patches of 14
    latent: int  # on each side, 64 in Stable Diffusion


SIZES = {
    "tiny": Size((4, 512, 1024), (4, 256, 1024), (4, 512, 2048), 64, 512, 32, 32, 56, 8),
    # 216, 108, 225 and about 250 MiB: what a simulated device passes through in a fraction of a
    # second.
    "small": Size((8, 1024, 3072), (8, 512, 1536), (8, 1024, 5120), 128, 2048, 128, 64, 112, 16),
    # 3.3, 1.6, 3.5 (ViT-bigG itself) and 1.7 GiB (Stable Diffusion's own U-Net).
    "large": Size(
        (32, 2048, 5632), (16, 2048, 5632), (48, 1664, 8192), 320, 32000, 1024, 512, 224, 64
    ),
}


class RootMeanSquareNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (x * scale.to(x.dtype)) * self.weight


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Attention of batches of rows; each matrix product is one launch."""
    split = lambda x: x.unflatten(-1, (heads, -1)).transpose(1, 2)
    q, k, v = split(q), split(k), split(v)
    scores = torch.matmul(q, k.transpose(-1, -2)) * (q.shape[-1] ** -0.5)
    if mask is not None:
        scores = scores + mask
    return torch.matmul(scores.softmax(-1), v).transpose(1, 2).flatten(2)


class LlamaLayer(nn.Module):
    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = RootMeanSquareNorm(width), RootMeanSquareNorm(
            width
        )
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(
            width, inner, bias=False
        )
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, mask=None, cache=None, position=0):
        normed = self.before_attention(x)
        q, k, v = self.q(normed), self.k(normed), self.v(normed)
        if cache is not None:
            end = position + x.shape[1]
            cache[0][:, position:end], cache[1][:, position:end] = k, v
            k, v = cache[0][:, :end], cache[1][:, :end]
        x = x + self.o(attend(q, k, v, self.heads, mask))
        normed = self.before_mlp(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    def __init__(self, shape: tuple[int, int, int], vocabulary: int) -> None:
        super().__init__()
        count, width, inner = shape
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaLayer(width, inner, heads=16) for _ in range(count))
        self.norm = RootMeanSquareNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids, mask=None, caches=None, position=0):
        x = self.embedding(ids)
        for index, layer in enumerate(self.layers):
            if torch.is_grad_enabled():
                x = checkpoint(layer, x, mask, use_reentrant=False)
            else:
                x = layer(x, mask, caches[index] if caches else None, position)
        return self.head(self.norm(x))


class VitLayer(nn.Module):
    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        q, k, v = self.qkv(self.before_attention(x)).chunk(3, -1)
        x = x + self.o(attend(q, k, v, self.heads))
        return x + self.down(F.gelu(self.up(self.before_mlp(x))))


class Vit(nn.Module):
    def __init__(self, shape: tuple[int, int, int], image: int) -> None:
        super().__init__()
        count, width, inner = shape
        self.patches = nn.Linear(3 * 14 * 14, width)
        self.positions = nn.Parameter(torch.zeros((image // 14) ** 2, width))
        self.layers = nn.ModuleList(VitLayer(width, inner, heads=16) for _ in range(count))
        self.norm = nn.LayerNorm(width)

    def forward(self, image):
        x = (
            image.unfold(2, 14, 14)
            .unfold(3, 14, 14)
            .permute(0, 2, 3, 1, 4, 5)
            .flatten(3)
            .flatten(1, 2)
        )
        x = self.patches(x) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.norm(x).mean(1)


class ResidualBlock(nn.Module):
    """A residual block of Stable Diffusion's U-Net, and where `context` is not 0 the transformer
    behind it."""

    def __init__(self, channels_in: int, channels: int, time: int, context: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, channels_in), nn.GroupNorm(32, channels)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(time, channels)
        self.shortcut = nn.Conv2d(channels_in, channels, 1) if channels_in != channels else None
        self.transformer = CrossTransformer(channels, context) if context else None

    def forward(self, x, time, context):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        x = (x if self.shortcut is None else self.shortcut(x)) + y
        return x if self.transformer is None else self.transformer(x, context)


class CrossTransformer(nn.Module):
    def __init__(self, channels: int, context: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.enter, self.leave = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.q1, self.k1, self.v1, self.o1 = (
            nn.Linear(channels, channels, bias=False) for _ in range(4)
        )
        self.q2, self.o2 = nn.Linear(channels, channels, bias=False), nn.Linear(channels, channels)
        self.k2, self.v2 = nn.Linear(context, channels, bias=False), nn.Linear(
            context, channels, bias=False
        )
        self.up, self.down = nn.Linear(channels, 8 * channels), nn.Linear(4 * channels, channels)

    def forward(self, image, context):
        x = self.enter(image.flatten(2).transpose(1, 2))
        normed = self.norms[0](x)
        x = x + self.o1(attend(self.q1(normed), self.k1(normed), self.v1(normed), 8))
        x = x + self.o2(attend(self.q2(self.norms[1](x)), self.k2(context), self.v2(context), 8))
        value, gate = self.up(self.norms[2](x)).chunk(2, -1)
        x = self.leave(x + self.down(value * F.gelu(gate)))
        return image + x.transpose(1, 2).unflatten(2, image.shape[2:])


class UNet(nn.Module):
    """Stable Diffusion's: four levels of 1, 2, 4 and 4 times the channels, two blocks down and
    three up on each."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        widths, time, context = (
            [channels, 2 * channels, 4 * channels, 4 * channels],
            4 * channels,
            768 * channels // 320,
        )
        context -= context % 8
        self.channels, self.context = channels, context
        self.time = nn.Sequential(nn.Linear(channels, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(4, channels, 3, padding=1)
        self.layers, self.samplers = nn.ModuleList(), nn.ModuleList()
        skips, now = [channels], channels
        for level, width in enumerate(widths):
            for _ in range(2):
                self.layers.append(ResidualBlock(now, width, time, context if level < 3 else 0))
                now = width
                skips.append(now)
            if level < 3:
                self.samplers.append(nn.Conv2d(now, now, 3, stride=2, padding=1))
                skips.append(now)
        self.layers.extend(
            ResidualBlock(now, now, time, context if block == 0 else 0) for block in range(2)
        )
        for level, width in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.layers.append(
                    ResidualBlock(now + skips.pop(), width, time, context if level < 3 else 0)
                )
                now = width
            if level > 0:
                self.samplers.append(nn.Conv2d(now, now, 3, padding=1))
        self.norm, self.leave = nn.GroupNorm(32, channels), nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, latent, time, context):
        layers, samplers = iter(self.layers), iter(self.samplers)
        time = self.time(time)
        x = self.enter(latent)
        skips = [x]
        for level in range(4):
            for _ in range(2):
                x = next(layers)(x, time, context)
                skips.append(x)
            if level < 3:
                x = next(samplers)(x)
                skips.append(x)
        for _ in range(2):
            x = next(layers)(x, time, context)
        for level in range(4):
            for _ in range(3):
                x = next(layers)(torch.cat([x, skips.pop()], 1), time, context)
            if level < 3:
                x = next(samplers)(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.leave(F.silu(self.norm(x)))


def filled(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The model on the host with seeded weights, as if it had been loaded from a file."""
    numbers = torch.Generator().manual_seed(1)
    tile = torch.empty(1 << 20).uniform_(-0.03, 0.03, generator=numbers).to(dtype)
    model = model.to_empty(device="cpu").to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.fill_(0.5)
                continue
            # Drawing each weight would take a large model ten seconds.
            shift = int(torch.randint(0, len(tile), (), generator=numbers))
            for begin in range(0, parameter.numel(), len(tile)):
                part = parameter.view(-1)[begin : begin + len(tile)]
                part.copy_(tile.roll(shift + begin // len(tile))[: len(part)])
    return model
