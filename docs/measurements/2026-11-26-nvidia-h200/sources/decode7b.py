"""Tokens of a LLaMA of 7B with seeded random weights in bfloat16, one at a time, and a digest of the logits.

decode7b.py [--tokens N] [--accelerate GIB]: with --accelerate, so many GiB of the weights stay on the device, and accelerate brings the others.
"""
import argparse, hashlib, json, time
import torch, transformers
p = argparse.ArgumentParser(); p.add_argument("--tokens", type=int, default=12); p.add_argument("--accelerate", type=float, default=0.0); p.add_argument("--layers", type=int, default=32)
o = p.parse_args()
torch.manual_seed(1); torch.set_default_dtype(torch.bfloat16)
begin = time.perf_counter()
with torch.device("cuda"):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=o.layers, num_attention_heads=32, max_position_embeddings=2048, attn_implementation="sdpa")).eval()
torch.cuda.synchronize(); made = time.perf_counter() - begin
weights = sum(x.numel() * x.element_size() for x in model.parameters())
if o.accelerate:
    import accelerate
    plan = accelerate.infer_auto_device_map(model, max_memory={0: int(o.accelerate * 2**30), "cpu": "100GiB"}, no_split_module_classes=["LlamaDecoderLayer"])
    model = model.to("cpu"); torch.cuda.empty_cache()  # else what it offloads stays on the device
    model = accelerate.dispatch_model(model, device_map=plan)
    torch.cuda.reset_peak_memory_stats()
ids = torch.arange(64, device="cuda").reshape(1, 64)
cache = transformers.DynamicCache(); found = hashlib.sha256(); times = []
with torch.inference_mode():
    for _ in range(o.tokens):
        torch.cuda.synchronize(); b = time.perf_counter()
        logits = model(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, -1]
        ids = logits.argmax(-1, keepdim=True).to("cuda")
        torch.cuda.synchronize(); times.append(round(1e3 * (time.perf_counter() - b), 2))
        found.update(logits.float().cpu().numpy().tobytes())
print(json.dumps({"weights_bytes": weights, "made_s": round(made, 2), "token_ms": times, "median_of_last_half_ms": sorted(times[len(times)//2:])[len(times)//4], "digest": found.hexdigest()[:16], "max_reserved_bytes": torch.cuda.max_memory_reserved(), "device": torch.cuda.get_device_name()}))
