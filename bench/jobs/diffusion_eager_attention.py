"""The denoiser computes attention from separate products and softmax; the twin uses fused attention."""

import torch
from diffusers.models.attention_processor import AttnProcessor

from bench.common import Label, arguments
from bench.diffusion import pipeline, prompts

LABEL = Label(
    cause="kernels/unfused_attention",
    says=("attention", "sdpa", "scaled_dot_product"),
    kind="generation",
    style="diffusers",
)


def main(flawed: bool, steps: int) -> None:
    pipe, (empty, prompt) = pipeline(size=16), prompts().split(1)
    if flawed:
        pipe.unet.set_attn_processor(AttnProcessor())
    pipe(
        prompt_embeds=prompt,
        negative_prompt_embeds=empty,
        num_inference_steps=steps,
        output_type="latent",
        generator=torch.Generator().manual_seed(0),
    )


if __name__ == "__main__":
    main(*arguments())
