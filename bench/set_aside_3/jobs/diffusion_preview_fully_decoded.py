"""A preview of every step goes through the whole autoencoder; the twin's is a linear map of latents to colours."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from bench.diffusion import WIDTH, prompts, scheduler, text_encoder
from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="serving/preview_decoded_every_step",
    says=("preview", "decod", "VAE", "autoencoder", "callback", "every step", "intermediate"),
    kind="inference",
    style="diffusers",
)
diffusers: Any = import_module("diffusers")
SIZE = 12  # of the latents


def small_denoiser() -> Any:
    """With attention to the prompt in its outer blocks."""
    return diffusers.UNet2DConditionModel(
        sample_size=SIZE,
        block_out_channels=(64, 128),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=WIDTH,
        attention_head_dim=8,
    ).eval()


def larger_autoencoder() -> Any:
    """Makes of each place of the latents four by four points."""
    return diffusers.AutoencoderKL(
        block_out_channels=(32, 64, 64),
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        latent_channels=4,
        norm_num_groups=8,
    ).eval()


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    pipe = diffusers.StableDiffusionPipeline(
        vae=larger_autoencoder(),
        text_encoder=text_encoder(),
        tokenizer=None,
        unet=small_denoiser(),
        scheduler=scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    side = SIZE * pipe.vae_scale_factor
    empty, prompt = prompts().split(1)
    colours, shown = torch.randn(4, 3) * 0.2, []

    def preview(pipe: Any, step: int, time: Tensor, values: dict[str, Tensor]) -> dict[str, Tensor]:
        latents = values["latents"]
        if flawed:
            picture = pipe.vae.decode(latents / pipe.vae.config.scaling_factor).sample
        else:
            picture = torch.einsum("nchw,cr->nrhw", latents, colours)
        shown[:] = pipe.image_processor.postprocess(picture, output_type="pil")
        return values

    pipe(
        prompt_embeds=prompt,
        negative_prompt_embeds=empty,
        height=side,
        width=side,
        num_inference_steps=steps,
        callback_on_step_end=preview,
        output_type="pil",
    )


if __name__ == "__main__":
    main(*arguments())
