"""Attention is computed in slices, as for a card of little memory that is not there; the twin computes it at once."""

from importlib import import_module
from typing import Any

import torch

from bench.diffusion import WIDTH, pipeline, prompts
from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="kernels/attention_in_slices",
    says=("slic", "attention", "scaled_dot_product", "SDPA", "fused", "baddbmm", "small kernels"),
    kind="inference",
    style="diffusers",
)
diffusers: Any = import_module("diffusers")
SIZE, PICTURES = 8, 4  # of the latents; of one prompt


def small_denoiser() -> Any:
    """With attention to the prompt in its outer blocks."""
    return diffusers.UNet2DConditionModel(
        sample_size=SIZE,
        block_out_channels=(64, 64),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=WIDTH,
        attention_head_dim=16,  # which to this class is how many heads
    ).eval()


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    pipe = pipeline(SIZE)
    pipe.register_modules(unet=small_denoiser())
    if flawed:
        pipe.enable_attention_slicing("max")
    empty, prompt = prompts().split(1)
    pipe(
        prompt_embeds=prompt,
        negative_prompt_embeds=empty,
        height=SIZE * pipe.vae_scale_factor,
        width=SIZE * pipe.vae_scale_factor,
        num_images_per_prompt=PICTURES,
        num_inference_steps=steps,
        output_type="pt",
    )


if __name__ == "__main__":
    main(*arguments())
