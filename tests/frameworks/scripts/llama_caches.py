"""A LLaMA that answers greedily and by sampling, with each of transformers' caches.

Stands for: text generation with generate(), as chat programs and evaluations call it. On simgpu an
answer of generate() ends after any word, for that depends on values; so a loop by hand follows.
"""

import torch
import transformers

transformers.logging.set_verbosity_error()
torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=1024,
    hidden_size=512,
    intermediate_size=1536,
    num_hidden_layers=6,
    num_attention_heads=8,
    num_key_value_heads=4,
    max_position_embeddings=128,
    bos_token_id=1,
    eos_token_id=None,
    pad_token_id=0,
)
model = transformers.LlamaForCausalLM(config).eval().cuda()
prompt = torch.randint(2, 1000, (2, 12)).cuda()
KINDS = {
    "dynamic cache": {},
    "no cache": {"use_cache": False},
    "offloaded cache": {"cache_implementation": "offloaded"},
    "static cache": {"cache_implementation": "static", "disable_compile": True},
    "sampled": {"do_sample": True, "top_k": 20, "temperature": 0.8},
}
for name, options in KINDS.items():
    torch.manual_seed(1)
    said = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=3,
        return_dict_in_generate=True,
        output_logits=True,
        **options,
    )
    logits = torch.stack(said.logits).cpu().view(torch.int32).sum().item()
    print(name, said.sequences[:, 12:].tolist(), logits)
cache, words = transformers.DynamicCache(config=config), prompt
with torch.inference_mode():
    for _ in range(5):
        answer = model(words, past_key_values=cache)
        words = answer.logits[:, -1:].argmax(-1) % 1000
        print("word", words.flatten().tolist())
print("cache", sum(layer.keys.cpu().view(torch.int32).sum().item() for layer in cache.layers))
