"""An inpainting loop encodes the masked picture again in every step; the twin encodes it once before the loop."""

from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.diffusion import WIDTH, prompts, scheduler
from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="serving/same_picture_encoded_every_step",
    says=("encod", "same input", "same result", "recomput", "once", "before the loop", "VAE", "autoencoder", "cache"),
    kind="inference",
    style="diffusers",
)
diffusers: Any = import_module("diffusers")
SIZE = 12  # of the latents
SIDE = 4 * SIZE  # of the picture


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
        block_out_channels=(64, 64, 64),
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        latent_channels=4,
        norm_num_groups=8,
    ).eval()


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    unet, vae, steering = small_denoiser(), larger_autoencoder(), scheduler()
    picture, mask = torch.rand(1, 3, SIDE, SIDE) * 2 - 1, torch.ones(1, 1, SIDE, SIDE)
    mask[..., SIDE // 4 : SIDE // 2] = 0
    small_mask = F.interpolate(mask, (SIZE, SIZE))
    embeddings = prompts()

    def encoded() -> Tensor:
        return vae.encode(picture * mask).latent_dist.mode() * vae.config.scaling_factor

    known = encoded()
    noise = torch.randn_like(known)
    latents = noise.clone()
    steering.set_timesteps(steps)
    for time in steering.timesteps:
        both = steering.scale_model_input(latents.repeat(2, 1, 1, 1), time)
        empty, guided = unet(both, time, encoder_hidden_states=embeddings).sample.chunk(2)
        latents = steering.step(empty + 7.5 * (guided - empty), time, latents).prev_sample
        if flawed:
            known = encoded()
        latents = small_mask * steering.add_noise(known, noise, time[None]) + (1 - small_mask) * latents
    vae.decode(latents / vae.config.scaling_factor)


if __name__ == "__main__":
    main(*arguments())
