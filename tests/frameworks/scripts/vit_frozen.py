"""A vision transformer of timm whose first half is frozen, trained and then asked.

Stands for: fine-tuning the upper layers of a pretrained image model.
"""

import timm
import torch

torch.manual_seed(0)
model = timm.create_model(
    "vit_small_patch16_224", img_size=64, num_classes=100, depth=6, drop_path_rate=0.1
).cuda()
for parameter in (*model.patch_embed.parameters(), *model.blocks[:3].parameters()):
    parameter.requires_grad_(False)
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = torch.optim.AdamW(trained, 1e-3, foreach=False)
for step in range(2):
    images, classes = torch.randn(2, 3, 64, 64).cuda(), torch.randint(0, 100, (2,)).cuda()
    loss = torch.nn.functional.cross_entropy(model(images), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.detach().cpu().view(torch.int32).item())
model.eval()
with torch.inference_mode():
    print("classes", model(torch.ones(2, 3, 64, 64).cuda()).cpu().view(torch.int32).sum().item())
