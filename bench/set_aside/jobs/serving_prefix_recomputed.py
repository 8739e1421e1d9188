"""Each new token runs the model over the whole text so far; the twin keeps keys and values and runs the last token only."""

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.label import Label
from bench.set_aside.common import Block, Decoder, arguments, begin, tokens

LABEL = Label(cause="serving/no_kv_cache", says=("KV", "cache", "prefix", "keys and values"), kind="generation")
BATCH, PROMPT = 8, 64
Past = dict[int, tuple[Tensor, Tensor]]


def block_with_past(block: Block, number: int, x: Tensor, past: Past) -> Tensor:
    """A block that sees what earlier calls saw."""
    batch, length, width = x.shape
    inner = block.attention
    q, k, v = inner.qkv(block.norm1(x)).view(batch, length, 3, inner.heads, -1).permute(2, 0, 3, 1, 4)
    if number in past:
        k, v = torch.cat([past[number][0], k], 2), torch.cat([past[number][1], v], 2)
    past[number] = (k, v)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
    x = x + inner.out(mixed.transpose(1, 2).reshape(batch, length, width))
    return x + block.mlp(block.norm2(x))


def last_logits(model: Decoder, text: Tensor, start: int, past: Past) -> Tensor:
    """What follows text[start:], given the past."""
    x = model.embed(text[:, start:]) + model.place.weight[start : text.shape[1]]
    for number, block in enumerate(model.blocks):
        x = block_with_past(block, number, x, past)
    return model.head(model.norm(x[:, -1]))


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder(layers=6, width=256, vocabulary=24_000).eval()
    text, past = tokens(BATCH, PROMPT), Past()
    for step in range(steps):
        if flawed:
            past = {}
        logits = last_logits(model, text, 0 if flawed or step == 0 else text.shape[1] - 1, past)
        text = torch.cat([text, logits.argmax(-1, keepdim=True)], 1)


if __name__ == "__main__":
    main(*arguments())
