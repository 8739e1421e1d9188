"""Rank 0 alone decodes and writes samples after each step while three ranks wait; the twin writes them once, at the end."""

import json
import tempfile

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, process_group, tokens, update

LABEL = Label(
    cause="host/one_rank_does_more",
    says=("rank 0", "straggler", "slowest rank", "host", "between steps", "outside the step", "logging"),
    ranks=4,
    rank=0,
    style="ddp",
)
WORDS = [f"word{number}" for number in range(1000)]


def sample_lines(logits: Tensor, text: Tensor) -> str:
    """What the model would have said, with the five best words for each place."""
    best = logits.detach().topk(5).indices.tolist()
    lines = []
    for row, truth in zip(best, text.tolist(), strict=True):
        places = [
            {"truth": WORDS[word], "best": [WORDS[k] for k in five]} for five, word in zip(row, truth, strict=True)
        ]
        lines.append(
            json.dumps({"places": places, "hits": sum(f[0] == w for f, w in zip(row, truth, strict=True))}, indent=1)
        )
    return "\n".join(lines)


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank, tempfile.TemporaryFile("w") as file:
        model = DistributedDataParallel(Decoder(layers=1, width=96))
        optimizer = adamw(model)
        torch.manual_seed(rank)
        data = [tokens(16, 64) for _ in range(4)]
        for step in range(steps):
            text = data[step % 4]
            logits = model(text)
            update(optimizer, next_token_loss(logits, text))
            if rank == 0 and (flawed or step == steps - 1):
                file.write(sample_lines(logits, text))


if __name__ == "__main__":
    main(*arguments())
