"""Top-k sampling sorts each row of the logits in pure Python for each token; the twin samples with tensors."""

import random

import torch
from torch import Tensor

from bench.common import LM, Label, arguments, tokens

LABEL = Label(cause="serving/sampling_in_python", says=("sampling", "sample", "tolist", "Python"), kind="generation")


def sampled_in_python(logits: Tensor) -> Tensor:
    chosen = []
    for row in logits.tolist():
        best = sorted(enumerate(row), key=lambda pair: -pair[1])[:50]
        chosen.append(random.choices([n for n, _ in best], [2.718 ** (score - best[0][1]) for _, score in best])[0])
    return torch.tensor(chosen)[:, None]


def sampled(logits: Tensor) -> Tensor:
    scores, ids = logits.topk(50)
    return ids.gather(1, torch.multinomial(scores.softmax(-1), 1))


def main(flawed: bool, steps: int) -> None:
    model = LM(width=512, layers=6, vocab=4096, context=128).eval()
    new, caches, start = tokens(16, 16), model.caches(16), 0
    with torch.inference_mode():
        for _ in range(steps):
            logits = model(new, caches, start)[:, -1]
            start += new.shape[1]
            new = sampled_in_python(logits) if flawed else sampled(logits)


if __name__ == "__main__":
    main(*arguments())
