"""DDP over NCCL and gloo, and FSDP2 over gloo, in one process.

Stands for: scripts for many devices that are tried on one.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def network():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(768, 768), nn.GELU()) for _ in range(8))).cuda()


def train(name, model):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 768).cuda()).square().mean().backward()
        optimizer.step()
    weights = [
        each.full_tensor() if hasattr(each, "full_tensor") else each for each in model.parameters()
    ]
    print(name, sum(each.detach().cpu().view(torch.int32).sum().item() for each in weights))


train("DDP", DistributedDataParallel(network(), bucket_cap_mb=4))
nccl = dist.new_group(backend="nccl")
train("NCCL", DistributedDataParallel(network(), bucket_cap_mb=4, process_group=nccl))
sharded = network()
for block in sharded:
    fully_shard(block)
fully_shard(sharded)
train("FSDP2", sharded)
dist.destroy_process_group()
