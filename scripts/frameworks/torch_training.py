#!/usr/bin/env python3
"""Training steps (AdamW) of a transformer with seeded random weights (3 GB with gradients and optimizer state), and digests."""

import torch_common as common

import torch


def main() -> None:
    options = common.parse(__doc__)
    # The plain attention is the only one that sums its gradients in the same order in every run.
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    model, name = common.make_model(options, torch.float32, vocabulary=16000, hidden=1024, inner=2816, layers=12, heads=16)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = common.random_ids(options, batch=4, length=256, vocabulary=16000)
    digests, pass_ms = [], []
    for _ in range(options.passes):
        begin = common.now(options)
        optimizer.zero_grad(set_to_none=True)
        logits = model(ids)
        # The model learns to predict the next token.
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        pass_ms.append(1e3 * (common.now(options) - begin))
        digests.append(common.digest(loss))
    digests.append(common.digest(*model.parameters()))
    common.report(options, name, model, digests, pass_ms)


if __name__ == "__main__":
    main()
