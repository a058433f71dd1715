"""Speculative decoding: a small model proposes words, and a larger one takes or refuses them.

Stands for: generate() with an assistant model. How often each model runs depends on values. Not by
sampling: that takes how many words it accepts from a kernel, which simgpu does not compute.
"""

import torch
import transformers

transformers.logging.set_verbosity_error()


def llama(layers, width):
    return (
        transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=2048,
                hidden_size=width,
                intermediate_size=3 * width,
                num_hidden_layers=layers,
                num_attention_heads=8,
                num_key_value_heads=4,
                max_position_embeddings=128,
                bos_token_id=1,
                eos_token_id=None,
                pad_token_id=0,
            )
        )
        .eval()
        .cuda()
    )


torch.manual_seed(0)
model, assistant = llama(6, 512), llama(2, 256)
prompt = torch.randint(2, 2000, (1, 12)).cuda()
for _ in range(3):
    prompt = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        assistant_model=assistant,
        max_new_tokens=8,
        do_sample=False,
    )
    print("with an assistant", prompt[0, 12:].tolist())
said = model.generate(
    prompt,
    attention_mask=torch.ones_like(prompt),
    max_new_tokens=8,
    do_sample=False,
    prompt_lookup_num_tokens=3,
)
print("by looking up", said[0, prompt.shape[1] :].tolist())
with torch.no_grad():
    print("logits", model(said).logits.cpu().view(torch.int32).sum().item())
