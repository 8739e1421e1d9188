"""Guidance calls the denoiser for each of two prompts in turn; the twin puts both into one batch."""

import torch

from bench.common import Label, arguments
from bench.diffusion import denoiser, prompts, scheduler

LABEL = Label(
    cause="serving/guidance_in_turns",
    says=("guidance", "one batch"),
    kind="generation",
    style="diffusers",
)
SCALE = 7.5


def main(flawed: bool, steps: int) -> None:
    model, noise = denoiser(size=6), scheduler()
    empty, prompt = prompts().split(1)
    both = torch.cat([empty, prompt])
    latents = torch.randn(1, 4, 6, 6)
    noise.set_timesteps(steps)
    with torch.inference_mode():
        for t in noise.timesteps:
            if flawed:
                plain = model(latents, t, encoder_hidden_states=empty).sample
                guided = model(latents, t, encoder_hidden_states=prompt).sample
            else:
                plain, guided = model(torch.cat([latents] * 2), t, encoder_hidden_states=both).sample.chunk(2)
            latents = noise.step(plain + SCALE * (guided - plain), t, latents).prev_sample


if __name__ == "__main__":
    main(*arguments())
