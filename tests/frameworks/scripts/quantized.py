"""Weights of 8 and 4 bits by torchao: the answers of a network before and after.

Stands for: quantized inference.
"""

import torch
import torchao.quantization as quantization
from torch import nn

torch.manual_seed(0)
x = torch.randn(8, 1024).cuda().bfloat16()
for name in ("bfloat16", "Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(12))).cuda().bfloat16().eval()
    if name != "bfloat16":
        quantization.quantize_(model, getattr(quantization, name)())
    with torch.no_grad():
        print(name, model(x).float().cpu().view(torch.int32).sum().item())
