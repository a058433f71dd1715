"""Factors of each layer's statistics, batches of small systems, and Fourier layers, with PyTorch.

Stands for: optimizers that precondition by factors (Shampoo, K-FAC), Gaussian processes, and neural
operators: cuSOLVER, batched cuBLAS and cuFFT.
"""

import torch

torch.manual_seed(0)
identity = torch.eye(1024).cuda()
layers = [(identity * 4 + torch.randn(1024, 1024).cuda()) for _ in range(12)]
images = [torch.randn(64, 128, 128).cuda() for _ in range(6)]
filters = [torch.randn(128, 65, dtype=torch.complex64).cuda() for _ in range(6)]
systems = torch.randn(8, 64, 64).cuda()
right = torch.randn(8, 64, 4).cuda()


def precondition(layer):
    statistics = layer @ layer.mT + identity
    factor = torch.linalg.cholesky(statistics)
    values, vectors = torch.linalg.eigh(statistics)
    solved = torch.linalg.solve(layer, vectors * values)
    return layer - 0.01 * torch.cholesky_solve(solved, factor)


for _ in range(3):
    layers = [precondition(layer) for layer in layers]
    images = [torch.fft.irfft2(torch.fft.rfft2(image) * kernel, s=(128, 128))
              for image, kernel in zip(images, filters)]
q, r = torch.linalg.qr(layers[0])
u, s, v = torch.linalg.svd(layers[1][:, :64], full_matrices=False)
small = torch.linalg.solve(systems, right) + torch.linalg.inv(systems)[:, :, :4]
results = {"layers": layers, "images": images, "factors": [q, r, u, s, v], "small": [small]}
for name, tensors in results.items():
    print(name, sum(tensor.cpu().contiguous().view(torch.int32).sum().item() for tensor in tensors))
