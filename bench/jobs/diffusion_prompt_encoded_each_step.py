"""The prompt goes through its text encoder in every denoising step; the twin encodes it once."""

import torch
from torch import Tensor

from bench.common import Label, arguments
from bench.diffusion import WORDS, denoiser, scheduler, text_encoder

LABEL = Label(
    cause="serving/same_input_encoded_again",
    says=("text encoder", "encode", "once", "same input"),
    kind="generation",
    style="diffusers",
)
SCALE = 7.5


def main(flawed: bool, steps: int) -> None:
    encoder, model, noise = text_encoder(), denoiser(), scheduler()
    words = torch.randint(0, 1000, (WORDS,)).tolist()

    def encoded() -> Tensor:
        out: Tensor = encoder(torch.tensor([[0] * WORDS, words])).last_hidden_state
        return out

    latents = torch.randn(1, 4, 8, 8)
    noise.set_timesteps(steps)
    with torch.inference_mode():
        both = encoded()
        for t in noise.timesteps:
            if flawed:
                both = encoded()
            plain, guided = model(torch.cat([latents] * 2), t, encoder_hidden_states=both).sample.chunk(2)
            latents = noise.step(plain + SCALE * (guided - plain), t, latents).prev_sample


if __name__ == "__main__":
    main(*arguments())
