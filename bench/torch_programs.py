"""The PyTorch programs of torch_pass_time.py; the last line of output is a digest of the results, as JSON.

What follows does not depend on computed values, which simgpu does not compute for PyTorch: so many tokens, or so many steps.
"""

import argparse
import hashlib
import json

import torch
import transformers


def generate(passes: int, layers: int, hidden: int, intermediate: int) -> list[torch.Tensor]:
    """A LLaMA with a cache: a token for each pass."""
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=1024, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers, num_attention_heads=16,
        max_position_embeddings=256, attn_implementation="eager")).eval().cuda()
    ids = torch.arange(8, device="cuda").reshape(1, 8)
    cache, logits = transformers.DynamicCache(), None
    with torch.no_grad():
        for _ in range(passes):
            logits = model(ids, past_key_values=cache, use_cache=True).logits[:, -1]
            ids = logits.argmax(-1, keepdim=True)
    return [logits]


def decode(passes: int) -> list[torch.Tensor]:
    """In about the proportions of LLaMA-2-7B: its largest matrix is 1 % of all."""
    return generate(passes, layers=20, hidden=1024, intermediate=3072)


def decode_few_layers(passes: int) -> list[torch.Tensor]:
    """The largest matrix is 4 % of all. All of it has to be there at once, and the windowed bound gives what it takes away from
    the other matrices to them, too."""
    return generate(passes, layers=5, hidden=2048, intermediate=5632)


def train(passes: int) -> list[torch.Tensor]:
    """A GPT-2, and an Adam that updates each parameter by itself: a step for each pass."""
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=8192, n_positions=64, n_embd=768, n_layer=12, n_head=12, attn_implementation="eager")).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    ids = torch.arange(64, device="cuda").reshape(1, 64)
    for _ in range(passes):
        model(ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return list(model.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    programs = {"decode": decode, "decode-few-layers": decode_few_layers, "train": train}
    parser.add_argument("program", choices=programs)
    parser.add_argument("passes", type=int)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.backends.cudnn.enabled = False  # NVIDIA's own runtime in it refuses simulated drivers
    found = hashlib.sha256()
    for tensor in programs[options.program](options.passes):
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    print(json.dumps({"digest": found.hexdigest()}))


if __name__ == "__main__":
    main()
