"""A network under torch.compile, for inference and for training.

Stands for: torch.compile with its default mode, whose kernels Triton compiles meanwhile.
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    *(part for _ in range(6) for part in (nn.Linear(768, 768), nn.GELU(), nn.LayerNorm(768)))
).cuda()
compiled = torch.compile(model)
with torch.no_grad():
    print("answer", compiled(torch.ones(8, 768).cuda()).cpu().view(torch.int32).sum().item())
optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)
for step in range(2):
    loss = compiled(torch.randn(8, 768).cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.detach().cpu().view(torch.int32).item())
print(
    "weights",
    sum(each.detach().cpu().view(torch.int32).sum().item() for each in model.parameters()),
)
