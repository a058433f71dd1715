"""LISA (Pan et al., 2024): at each period other layers are trained, and all others are frozen.

Stands for: training of which layers take turns, with accumulated gradients and checkpointing.
"""

import random

import torch
import transformers

torch.manual_seed(0)
draw = random.Random(0)
model = transformers.GPT2LMHeadModel(
    transformers.GPT2Config(
        vocab_size=1024,
        n_positions=64,
        n_embd=448,
        n_layer=6,
        n_head=8,
        bos_token_id=1,
        eos_token_id=2,
    )
).cuda()
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
blocks = model.transformer.h
for period in range(3):
    chosen = draw.sample(range(len(blocks)), 2)
    for number, block in enumerate(blocks):
        block.requires_grad_(number in chosen)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, 1e-3, foreach=False)
    words = torch.randint(0, 1024, (4, 32)).cuda()
    for part in words.chunk(2):
        loss = model(part, labels=part, use_cache=False).loss / 2
        loss.backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0, foreach=False)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print("period", period, "layers", chosen, "loss", loss.detach().cpu().view(torch.int32).item())
print(
    "weights",
    sum(each.detach().cpu().view(torch.int32).sum().item() for each in model.parameters()),
)
