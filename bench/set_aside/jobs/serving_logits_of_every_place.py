"""Scoring a prompt computes the vocabulary's logits at every place and keeps the last; the twin applies the head to the last place."""

import torch

from bench.label import Label
from bench.set_aside.common import Decoder, arguments, begin, tokens

LABEL = Label(
    cause="serving/needless_logits",
    says=("logits", "head", "last position", "last token", "vocabulary"),
    kind="generation",
)


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder(layers=3, vocabulary=8000).eval()
    prompts = [tokens(8, 64) for _ in range(4)]
    for step in range(steps):
        features = model.body(prompts[step % 4])
        logits = model.head(features)[:, -1] if flawed else model.head(features[:, -1])
        logits.argmax(-1)


if __name__ == "__main__":
    main(*arguments())
