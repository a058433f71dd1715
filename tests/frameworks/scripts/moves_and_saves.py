"""Weights that move: to the host and back, to other types, into files, in place and by views.

Stands for: checkpoints, models that wait on the host, and weights that one model lends another.
"""

import copy
import io

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(10)))
model.cuda()
x = torch.randn(4, 1024).cuda()


def bits(tensors):
    return sum(each.detach().float().cpu().view(torch.int32).sum().item() for each in tensors)


print("answer", bits([model(x)]))
file = io.BytesIO()
torch.save({"model": model.state_dict(), "x": x}, file)
model.cpu()
torch.cuda.empty_cache()
print("on the host", bits(model.parameters()))
file.seek(0)
kept = torch.load(file, map_location="cuda")
other = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(10))).cuda()
other.load_state_dict(kept["model"])
del kept
half = copy.deepcopy(other).half()
print("loaded", bits([other(x)]), "half", bits([half(x.half())]))
other.load_state_dict(model.state_dict(), assign=True)
other.to("cuda", non_blocking=True)
other[9].weight = other[0].weight
other[3].weight.data = torch.cat([other[1].weight.data[:512], other[2].weight.data[512:]])
with torch.no_grad():
    flat = torch.nn.utils.parameters_to_vector(other.parameters())
    torch.nn.utils.vector_to_parameters(flat * 0.5, other.parameters())
print("tied, joined, halved", bits([other(x)]), bits(other.parameters()))
