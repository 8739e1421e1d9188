"""A Stable Diffusion pipeline of diffusers, tiny and of random weights, with its text encoder and autoencoder.

A step is one denoising step, with guidance; the text encoder and the autoencoder are called between images.
"""

from importlib import import_module
from typing import Any

import torch
from transformers import CLIPTextConfig, CLIPTextModel

STEPS, IMAGES = 8, 3


def pipeline() -> Any:
    diffusers: Any = import_module("diffusers")
    text: Any = CLIPTextModel(
        CLIPTextConfig(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)
    )
    made = diffusers.StableDiffusionPipeline(
        vae=diffusers.AutoencoderKL(block_out_channels=(8,), norm_num_groups=4),
        text_encoder=text.eval(),
        tokenizer=None,
        unet=diffusers.UNet2DConditionModel(
            sample_size=8,
            block_out_channels=(16, 32),
            layers_per_block=1,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            cross_attention_dim=32,
            norm_num_groups=8,
        ),
        scheduler=diffusers.DDIMScheduler(steps_offset=1, clip_sample=False),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    made.set_progress_bar_config(disable=True)
    return made


def main() -> None:
    torch.manual_seed(0)
    pipe = pipeline()
    for _ in range(IMAGES):
        with torch.no_grad():
            empty, prompt = (pipe.text_encoder(torch.randint(100, (1, 77)))[0] for _ in range(2))
        pipe(prompt_embeds=prompt, negative_prompt_embeds=empty, num_inference_steps=STEPS, output_type="pt")
    print(f"done: {IMAGES * STEPS} steps")


if __name__ == "__main__":
    main()
