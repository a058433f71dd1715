"""One network trained by AdamW, SGD, Adafactor and RMSprop: by loops, foreach and fused.

Stands for: optimizers whose launches name the tensors of a whole network (foreach, fused).
"""

import torch
from torch import nn

KINDS = {
    "AdamW loop": lambda weights: torch.optim.AdamW(weights, 1e-3, foreach=False),
    "AdamW foreach": lambda weights: torch.optim.AdamW(weights, 1e-3, foreach=True),
    "AdamW fused": lambda weights: torch.optim.AdamW(weights, 1e-3, fused=True),
    "SGD foreach": lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9, foreach=True),
    "SGD fused": lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9, fused=True),
    "Adafactor": lambda weights: torch.optim.Adafactor(weights, 1e-2),
    "RMSprop": lambda weights: torch.optim.RMSprop(weights, 1e-3),
}
for name, make in KINDS.items():
    torch.manual_seed(0)
    model = nn.Sequential(
        *(part for _ in range(4) for part in (nn.Linear(768, 768), nn.GELU()))
    ).cuda()
    optimizer = make(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(8, 768).cuda()).square().mean().backward()
        optimizer.step()
    print(
        name, sum(each.detach().cpu().view(torch.int32).sum().item() for each in model.parameters())
    )
