"""MeZO (Malladi et al., 2023), which trains without gradients, and a moving average of weights.

Stands for: zeroth-order fine-tuning of large models, and exponential moving averages.
"""

import torch
import transformers
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

torch.manual_seed(0)
model = (
    transformers.OPTForCausalLM(
        transformers.OPTConfig(
            vocab_size=1024,
            hidden_size=512,
            ffn_dim=2048,
            num_hidden_layers=4,
            num_attention_heads=8,
            max_position_embeddings=64,
            word_embed_proj_dim=512,
        )
    )
    .cuda()
    .eval()
)
words = torch.randint(3, 1000, (2, 24)).cuda()


def shift(seed, scale):
    draw = torch.Generator("cuda").manual_seed(seed)
    for weight in model.parameters():
        weight.add_(torch.randn(weight.shape, generator=draw, device="cuda"), alpha=scale)


averaged = AveragedModel(model, avg_fn=get_ema_avg_fn(0.9))
with torch.no_grad():
    for step in range(2):
        shift(step, 1e-3)
        above = model(words, labels=words).loss
        shift(step, -2e-3)
        below = model(words, labels=words).loss
        shift(step, 1e-3)
        slope = max(-1.0, min(1.0, (above - below).item() / 2e-3))
        shift(step, -1e-3 * slope)
        averaged.update_parameters(model)
        print(
            "step", step, above.cpu().view(torch.int32).item(), below.cpu().view(torch.int32).item()
        )
    print("averaged", averaged(words).logits.cpu().view(torch.int32).sum().item())
