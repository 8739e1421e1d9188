"""The prompt's logits are computed at all positions though only the last is read; the twin computes the last."""

import torch

from bench.common import LM, Label, arguments, tokens

LABEL = Label(
    cause="serving/logits_of_all_positions",
    says=("logits", "last position", "last token", "head", "vocabulary"),
    kind="inference",
)


def main(flawed: bool, steps: int) -> None:
    model = LM(width=256, layers=3, vocab=16_384).eval()
    prompts = tokens(4, 128, vocab=16_384)
    with torch.inference_mode():
        for _ in range(steps):
            hidden = model.hidden(prompts)
            logits = model.head(hidden)[:, -1] if flawed else model.head(hidden[:, -1])
            logits.argmax(-1)


if __name__ == "__main__":
    main(*arguments())
