"""A prompt that all requests share is computed anew for each of them; the twin keeps its keys and values."""

import torch

from bench.common import LM, Label, arguments, tokens

LABEL = Label(
    cause="serving/shared_prefix_recomputed", says=("prefix", "prompt cache", "shared prompt"), kind="inference"
)


def main(flawed: bool, steps: int) -> None:
    model = LM(width=384, layers=4, heads=6, context=256).eval()
    prompt, question = tokens(1, 96), tokens(1, 64)
    with torch.inference_mode():
        caches = model.caches(1)
        model(prompt, caches)
        for _ in range(steps):
            if flawed:
                model(torch.cat([prompt, question], 1), caches)
            else:
                model(question, caches, 96)


if __name__ == "__main__":
    main(*arguments())
