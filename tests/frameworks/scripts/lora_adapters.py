"""Two adapters of LoRA on one model: each is trained, they are switched, and one is merged.

Stands for: fine-tuning with peft, and serving several adapters over one base.
"""

import peft
import torch
import transformers

torch.manual_seed(0)
base = transformers.LlamaForCausalLM(
    transformers.LlamaConfig(
        vocab_size=2048,
        hidden_size=640,
        intermediate_size=1920,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=128,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
)
settings = peft.LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj", "down_proj"])
model = peft.get_peft_model(base, settings, adapter_name="first")
model.add_adapter("second", settings)
model.cuda()
words = torch.randint(2, 2000, (2, 16)).cuda()
for adapter in ("first", "second"):
    model.set_adapter(adapter)
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], 1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        model(words, labels=words).loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(adapter, model(words).logits.cpu().view(torch.int32).sum().item())
with torch.no_grad(), model.disable_adapter():
    print("base", model(words).logits.cpu().view(torch.int32).sum().item())
merged = model.merge_and_unload()
with torch.no_grad():
    print("merged", merged(words).logits.cpu().view(torch.int32).sum().item())
