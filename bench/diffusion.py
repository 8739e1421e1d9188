"""Shared by jobs of diffusion: a denoiser, an autoencoder and a text encoder of random weights, made from configs."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

diffusers: Any = import_module("diffusers")
transformers: Any = import_module("transformers")

WIDTH = 128  # of the prompt
WORDS = 77


def denoiser(size: int = 8) -> Any:
    """A small UNet with attention to the prompt."""
    return diffusers.UNet2DConditionModel(
        sample_size=size,
        block_out_channels=(128, 256),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=WIDTH,
        attention_head_dim=32,
    ).eval()


def autoencoder() -> Any:
    return diffusers.AutoencoderKL(
        block_out_channels=(32, 64),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        norm_num_groups=8,
    ).eval()


def text_encoder() -> Any:
    config = transformers.CLIPTextConfig(
        vocab_size=1000, hidden_size=WIDTH, intermediate_size=512, num_hidden_layers=6, num_attention_heads=4
    )
    return transformers.CLIPTextModel(config).eval()


def pipeline(size: int = 8) -> Any:
    """Stable Diffusion without a tokenizer: prompts are given as embeddings."""
    made = diffusers.StableDiffusionPipeline(
        vae=autoencoder(),
        text_encoder=text_encoder(),
        tokenizer=None,
        unet=denoiser(size),
        scheduler=scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    made.set_progress_bar_config(disable=True)
    return made


def scheduler() -> Any:
    return diffusers.DDIMScheduler(steps_offset=1, clip_sample=False)


def prompts(count: int = 2) -> Tensor:
    """Embeddings of an empty prompt and others."""
    return torch.randn(count, WORDS, WIDTH)
