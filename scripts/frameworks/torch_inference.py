#!/usr/bin/env python3
"""Forward passes of a transformer with seeded random weights (2.7 GB in bfloat16), and digests of what they give."""

import torch_common as common

import torch


def main() -> None:
    options = common.parse(__doc__)
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    model, name = common.make_model(options, dtype, vocabulary=32000, hidden=2048, inner=5632, layers=24, heads=16)
    if options.accelerate_mem:
        model = common.offload_by_accelerate(model, options)
    model.eval()
    digests, pass_ms = [], []
    with torch.inference_mode():
        ids = common.random_ids(options, batch=4, length=256, vocabulary=32000)
        for _ in range(options.passes):
            begin = common.now(options)
            logits = model(ids)
            pass_ms.append(1e3 * (common.now(options) - begin))
            digests.append(common.digest(logits))
    common.report(options, name, model, digests, pass_ms)


if __name__ == "__main__":
    main()
