"""Convolutions with batch normalization, attention, and a recurrent network, trained with PyTorch.

Stands for: what cuDNN computes in image and sequence models.
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.backends.cudnn.deterministic = True
images = nn.Sequential(
    nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
    nn.Conv2d(64, 512, 3, stride=2), nn.BatchNorm2d(512), nn.ReLU(),
    nn.Conv2d(512, 512, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    *(layer for _ in range(6) for layer in (nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))),
    nn.Linear(512, 10)).cuda()
sequences = nn.LSTM(256, 512, 2).cuda()
x, words = torch.randn(4, 3, 32, 32).cuda(), torch.randn(16, 4, 256).cuda()
optimizer = torch.optim.SGD([*images.parameters(), *sequences.parameters()], 0.1, foreach=False)
for _ in range(3):
    optimizer.zero_grad()
    y, _ = sequences(words)
    q = y.reshape(4, 8, 16, 64).half()
    attended = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    (images(x).float().sum() + attended.float().sum()).backward()
    optimizer.step()
images.eval()
with torch.no_grad():
    print("images", images(x).cpu().view(torch.int32).sum().item())
print("words", sequences(words)[0].detach().cpu().view(torch.int32).sum().item())
