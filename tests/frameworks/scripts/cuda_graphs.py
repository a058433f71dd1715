"""CUDA graphs: a decode step by torch.cuda.graph, and layers by make_graphed_callables.

Stands for: inference and training that are replayed from graphs.
"""

import torch
from torch import nn

torch.manual_seed(0)
layers = nn.Sequential(
    *(part for _ in range(6) for part in (nn.Linear(512, 512), nn.ReLU()))
).cuda()
others = nn.Sequential(
    *(part for _ in range(8) for part in (nn.Linear(768, 768), nn.ReLU()))
).cuda()
x = torch.zeros(16, 512, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side), torch.no_grad():
    layers(x)
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph), torch.no_grad():
    y = layers(x)
for step in range(3):
    x.copy_(torch.randn(16, 512))
    graph.replay()
    with torch.no_grad():
        z = others(torch.full((16, 768), float(step), device="cuda"))
    print(
        "step", step, y.cpu().view(torch.int32).sum().item(), z.cpu().view(torch.int32).sum().item()
    )
graphed = torch.cuda.make_graphed_callables(
    layers, (torch.randn(16, 512, device="cuda", requires_grad=True),)
)
optimizer = torch.optim.SGD(layers.parameters(), 0.1, foreach=False)
for _ in range(2):
    optimizer.zero_grad()
    graphed(torch.randn(16, 512, device="cuda", requires_grad=True)).square().sum().backward()
    optimizer.step()
print(
    "weights",
    sum(each.detach().cpu().view(torch.int32).sum().item() for each in layers.parameters()),
)
