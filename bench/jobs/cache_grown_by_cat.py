"""Each token copies the whole cache of keys and values with torch.cat; the twin writes into memory taken once."""

import torch
from torch import Tensor

from bench.common import LM, Label, StaticCache, arguments, tokens

LABEL = Label(
    cause="serving/cache_grown_by_cat", says=("torch.cat", "cat", "static cache", "preallocat"), kind="generation"
)


class GrowingCache(StaticCache):
    def extend(self, keys: Tensor, values: Tensor, start: int) -> tuple[Tensor, Tensor]:
        self.keys = torch.cat([self.keys[:, :, :start], keys], 2)
        self.values = torch.cat([self.values[:, :, :start], values], 2)
        return self.keys, self.values


def main(flawed: bool, steps: int) -> None:
    model = LM(width=256, layers=4, context=512).eval()
    kind = GrowingCache if flawed else StaticCache
    caches = [kind(16, model.heads, model.context, 64) for _ in range(4)]
    new, start = tokens(16, 1), 320
    with torch.inference_mode():
        for _ in range(steps):
            logits = model(new, caches, start)
            start += 1
            new = logits[:, -1:].argmax(-1)


if __name__ == "__main__":
    main(*arguments())
