"""A transformer encoder trained under autocast: with bfloat16, and with float16 and a GradScaler.

Stands for: mixed precision. The scaler skips a step where a gradient is infinite, which depends on
values: on simgpu it may skip each step, and then only the scale changes.
"""

import torch
from torch import nn

for kind in (torch.bfloat16, torch.float16):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(384, 8, 1536, batch_first=True, dropout=0.1)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, foreach=False)
    scaler = torch.amp.GradScaler("cuda", enabled=kind == torch.float16)
    for step in range(2):
        x = torch.randn(4, 32, 384).cuda()
        with torch.autocast("cuda", kind):
            loss = model(x).float().square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        scaler.step(optimizer)
        scaler.update()
    model.eval()
    with torch.no_grad(), torch.autocast("cuda", kind):
        answer = model(torch.ones(2, 32, 384).cuda()).float().cpu()
    weights = sum(each.detach().cpu().view(torch.int32).sum().item() for each in model.parameters())
    print(kind, "answer", answer.view(torch.int32).sum().item(), "weights", weights)
