"""A callback of the pipeline decodes the latents of every step; the twin decodes the last ones only."""

from typing import Any

import torch

from bench.common import Label, arguments
from bench.diffusion import pipeline, prompts

LABEL = Label(
    cause="serving/decoded_each_step",
    says=("preview", "decode", "after the last step"),
    kind="generation",
    style="diffusers",
)


def main(flawed: bool, steps: int) -> None:
    pipe, (empty, prompt) = pipeline(), prompts().split(1)

    def preview(pipe: Any, step: int, timestep: int, given: dict[str, Any]) -> dict[str, Any]:
        pipe.vae.decode(given["latents"])
        return given

    pipe(
        prompt_embeds=prompt,
        negative_prompt_embeds=empty,
        num_inference_steps=steps,
        output_type="pt",
        callback_on_step_end=preview if flawed else None,
        generator=torch.Generator().manual_seed(0),
    )


if __name__ == "__main__":
    main(*arguments())
