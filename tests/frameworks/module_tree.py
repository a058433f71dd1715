"""A model of transformers or diffusers that runs forward a few times, and says which of its modules have which parameters.

    module_tree.py MODEL FILE    MODEL is one of MODELS; writes FILE

FILE is JSON: "blocks" are the prefixes of the names of the modules that a user calls layers, in their order; "modules" are the
modules that have parameters of their own, in the order of their first calls, each with its name and with the address and the
bytes of each parameter. layers_check.py compares that with superpipe's layers.
"""

import json
import sys
from pathlib import Path

PASSES = 6
VOCABULARY, WIDTH, HEADS = 2048, 512, 8
# By name: how many layers a user would say that it has.
MODELS = {"llama": 12, "gpt2": 12, "bert": 12, "vit": 12, "mixtral": 8, "unet": 3}


def made(name: str):
    """The model, its inputs, and the prefix of its blocks' names with {} for their numbers."""
    import torch

    tokens = {"input_ids": torch.arange(16)[None]}
    count = MODELS[name]
    if name == "llama":
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=1408, num_hidden_layers=count,
                             num_attention_heads=HEADS, max_position_embeddings=256)
        return LlamaForCausalLM(config), tokens, "model.layers.{}."
    if name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=count, n_head=HEADS, n_positions=256)
        return GPT2LMHeadModel(config), tokens, "transformer.h.{}."
    if name == "bert":
        from transformers import BertConfig, BertModel

        config = BertConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=count, num_attention_heads=HEADS,
                            intermediate_size=4 * WIDTH)
        return BertModel(config), tokens, "encoder.layer.{}."
    if name == "vit":
        from transformers import ViTConfig, ViTForImageClassification

        config = ViTConfig(hidden_size=WIDTH, num_hidden_layers=count, num_attention_heads=HEADS, intermediate_size=4 * WIDTH,
                           image_size=64, patch_size=16)
        return ViTForImageClassification(config), {"pixel_values": torch.ones(1, 3, 64, 64)}, "vit.layers.{}."
    if name == "mixtral":
        from transformers import MixtralConfig, MixtralForCausalLM

        config = MixtralConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=WIDTH, num_hidden_layers=count,
                               num_attention_heads=HEADS, num_key_value_heads=HEADS, num_local_experts=4,
                               max_position_embeddings=256)
        return MixtralForCausalLM(config), tokens, "model.layers.{}."
    from diffusers import UNet2DModel

    model = UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=2, block_out_channels=(128, 256, WIDTH),
                        down_block_types=("DownBlock2D", "DownBlock2D", "DownBlock2D"),
                        up_block_types=("UpBlock2D", "UpBlock2D", "UpBlock2D"))
    # Modules of which a launch after the other is alike: of the others no two are.
    return model, {"sample": torch.ones(1, 3, 16, 16), "timestep": torch.tensor([3])}, "up_blocks.0.resnets.{}."


def main(name: str, file: Path) -> None:
    import torch

    torch.manual_seed(0)
    model, inputs, prefix = made(name)
    model = model.eval().to("cuda")
    inputs = {key: value.to("cuda") for key, value in inputs.items()}
    called: dict[str, list] = {}

    def note(path: str, own: list) -> None:
        called.setdefault(path, own)

    for path, module in model.named_modules():
        own = [[parameter.data_ptr(), parameter.numel() * parameter.element_size()]
               for parameter in module.parameters(recurse=False)]
        if own:
            module.register_forward_pre_hook(lambda *_, path=path, own=own: note(path, own))
    with torch.no_grad():
        for _ in range(PASSES):
            model(**inputs)
            torch.cuda.synchronize()
    file.write_text(json.dumps({"blocks": [prefix.format(block) for block in range(MODELS[name])],
                                "modules": [{"name": path, "parameters": own} for path, own in called.items()]}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
