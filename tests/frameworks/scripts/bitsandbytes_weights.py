"""Weights of 4 and 8 bits by bitsandbytes, and training with its optimizer of 8 bits.

Stands for: QLoRA and inference with quantized weights.
"""

import bitsandbytes
import torch
from torch import nn

KINDS = {
    "4 bits": lambda: bitsandbytes.nn.Linear4bit(2048, 2048, compute_dtype=torch.bfloat16),
    "8 bits": lambda: bitsandbytes.nn.Linear8bitLt(2048, 2048, has_fp16_weights=False),
}
x = torch.ones(8, 2048).cuda()
for name, make in KINDS.items():
    torch.manual_seed(0)
    model = nn.Sequential(*(make() for _ in range(12))).cuda().eval()
    with torch.no_grad():
        answer = model(x.bfloat16() if name == "4 bits" else x.half())
    print(name, answer.float().cpu().view(torch.int32).sum().item())
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(6))).cuda()
optimizer = bitsandbytes.optim.AdamW8bit(model.parameters(), 1e-3)
for _ in range(2):
    optimizer.zero_grad()
    model(x[:, :1024]).square().mean().backward()
    optimizer.step()
bits = sum(each.detach().cpu().view(torch.int32).sum().item() for each in model.parameters())
print("AdamW8bit", bits)
