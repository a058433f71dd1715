"""A graph network over nodes with a large table of embeddings, trained with sparse gradients.

Stands for: recommendation and graph learning: each step reads and writes some rows of a table.
"""

import torch
from torch import nn

torch.manual_seed(0)
nodes, width = 20000, 128
table = nn.Embedding(nodes, width, sparse=True).cuda()
layers = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(3)]).cuda()
bags = nn.EmbeddingBag(30000, width, mode="sum").cuda()
sparse = torch.optim.SparseAdam(table.parameters(), 1e-2)
dense = torch.optim.SGD([*layers.parameters(), *bags.parameters()], 0.1, foreach=False)
for step in range(3):
    chosen = torch.randint(0, nodes, (512,)).cuda()
    source, target = torch.randint(0, 512, (2, 4096)).cuda()
    state = table(chosen)
    for layer in layers:
        heard = torch.zeros_like(state).index_add_(0, target, state[source])
        state = layer(torch.cat([state, heard], 1)).relu()
    state = state + bags(torch.randint(0, 30000, (512, 8)).cuda())
    loss = state.square().mean()
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
    print("step", step, "loss", loss.detach().cpu().view(torch.int32).item())
for name, weight in (("table", table.weight), ("bags", bags.weight), ("layer", layers[2].weight)):
    print(name, weight.detach().cpu().view(torch.int32).sum().item())
