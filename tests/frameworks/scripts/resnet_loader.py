"""A ResNet trained on images that worker processes prepare, in pinned memory and channels_last.

Stands for: training of image classifiers, as torchvision's references have it.
"""

import torch
import torchvision


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        draw = torch.Generator().manual_seed(index)
        return torch.randn(3, 64, 64, generator=draw), index % 10


def main():
    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    model = torchvision.models.resnet18(num_classes=10).cuda().to(memory_format=torch.channels_last)
    loader = torch.utils.data.DataLoader(
        Images(), batch_size=4, shuffle=True, num_workers=2, pin_memory=True
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    for epoch in range(2):
        for images, classes in loader:
            images = images.cuda(non_blocking=True).to(memory_format=torch.channels_last)
            loss = torch.nn.functional.cross_entropy(model(images), classes.cuda(non_blocking=True))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.detach().cpu().view(torch.int32).item())
    model.eval()
    with torch.no_grad():
        print(
            "classes", model(torch.ones(2, 3, 64, 64).cuda()).cpu().view(torch.int32).sum().item()
        )


if __name__ == "__main__":
    main()
