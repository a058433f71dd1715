"""A Mixtral with the experts of a layer in one tensor, asked by generate() and trained one step.

Stands for: mixtures of experts, of which each token uses some.
"""

import torch
import transformers

transformers.logging.set_verbosity_error()
torch.manual_seed(0)
config = transformers.MixtralConfig(
    vocab_size=1024,
    hidden_size=256,
    intermediate_size=768,
    num_hidden_layers=3,
    num_attention_heads=8,
    num_key_value_heads=4,
    num_local_experts=8,
    num_experts_per_tok=2,
    max_position_embeddings=128,
    bos_token_id=1,
    eos_token_id=None,
    pad_token_id=0,
)
model = transformers.MixtralForCausalLM(config).cuda()
prompt = torch.randint(2, 1000, (1, 8)).cuda()
for kind in ("eager", "batched_mm", "grouped_mm"):
    model.set_experts_implementation(kind)
    model.eval()
    with torch.no_grad():
        logits = model(prompt).logits
    print(kind, logits.float().cpu().view(torch.int32).sum().item())
model.set_experts_implementation("eager")
said = model.generate(
    prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=2, do_sample=False
)
print("said", said[:, 8:].tolist())
model.train()
optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)
model(prompt, labels=prompt).loss.backward()
optimizer.step()
print(
    "weights",
    sum(each.detach().cpu().view(torch.int32).sum().item() for each in model.parameters()),
)
