"""Four threads, each with a stream and a network of its own, and one that all of them share.

Stands for: servers that answer in threads, and copies beside kernels on streams. The main thread
copies the answers out: superpipe verify tells threads apart by their order, which changes.
"""

import threading

import torch
from torch import nn

torch.manual_seed(0)
shared = nn.Sequential(*(nn.Linear(768, 768) for _ in range(6))).cuda()
own = [nn.Sequential(*(nn.Linear(512, 512) for _ in range(6))).cuda() for _ in range(4)]
inputs = [torch.randn(16, 768).pin_memory() for _ in range(4)]
answers = [None] * 4
torch.cuda.synchronize()


def serve(number):
    stream, copies = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            with torch.cuda.stream(copies):
                x = inputs[number].to("cuda", non_blocking=True)
            stream.wait_stream(copies)
            x.record_stream(stream)
            y = shared(x)
            z = own[number](y[:, :512])
        answers[number] = (y, z)
    stream.synchronize()


threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for number, pair in enumerate(answers):
    print("thread", number, *(each.cpu().view(torch.int32).sum().item() for each in pair))
