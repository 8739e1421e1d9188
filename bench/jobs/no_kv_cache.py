"""Each new token computes the whole text anew; the twin keeps keys and values in a cache."""

import torch

from bench.common import LM, Label, arguments, tokens

LABEL = Label(
    cause="serving/no_kv_cache", says=("KV cache", "cache of keys", "use_cache", "past_key"), kind="generation"
)


def main(flawed: bool, steps: int) -> None:
    model = LM(width=768, layers=6, heads=12, context=128).eval()
    caches = None if flawed else model.caches(1)
    text = tokens(1, 16)
    new, start = text, 0
    with torch.inference_mode():
        for _ in range(steps):
            logits = model(text) if flawed else model(new, caches, start)
            start = text.shape[1]
            new = logits[:, -1:].argmax(-1)
            text = torch.cat([text, new], 1)


if __name__ == "__main__":
    main(*arguments())
