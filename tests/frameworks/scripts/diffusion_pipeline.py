"""A pipeline of diffusers with random weights, on the device as a whole and part by part.

Stands for: making images by diffusion, also with enable_model_cpu_offload().
"""

import diffusers
import numpy
import torch

torch.manual_seed(0)
transformer = diffusers.DiTTransformer2DModel(
    num_attention_heads=8,
    attention_head_dim=48,
    in_channels=4,
    out_channels=8,
    num_layers=5,
    sample_size=8,
    patch_size=2,
    num_embeds_ada_norm=10,
)
vae = diffusers.AutoencoderKL(
    block_out_channels=(64, 128),
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
    latent_channels=4,
    norm_num_groups=16,
    sample_size=16,
)
pipeline = diffusers.DiTPipeline(transformer, vae, diffusers.DDIMScheduler())
pipeline.set_progress_bar_config(disable=True)


def bits(images):
    return numpy.ascontiguousarray(images, "float32").view("int32").sum()


def images():
    draw = torch.Generator("cuda").manual_seed(5)
    return pipeline(
        class_labels=[1, 7], num_inference_steps=3, generator=draw, output_type="np"
    ).images


pipeline.to("cuda")
print("on the device", bits(images()))
pipeline.to("cpu")
pipeline.enable_model_cpu_offload()
print("part by part", bits(images()))
