"""The scores of all words are computed at every place of a prompt, to use the last; the twin computes those alone."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="kernels/logits_of_all_positions",
    says=("logits", "vocabulary", "head", "last position", "last token", "logits_to_keep", "discard"),
    kind="generation",
)
WIDTH, HEADS, LAYERS, WORDS, PROMPT, NEW = 256, 4, 2, 16000, 128, 3
Cache = tuple[Tensor, Tensor]  # keys and values


class Block(nn.Module):
    """A causal layer that writes what it has seen into a cache made beforehand."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, cache: Cache, start: int) -> Tensor:
        end = start + x.shape[1]
        q, k, v = self.query_key_value(self.norm1(x)).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        for kept, new in zip(cache, (k, v), strict=True):
            kept[:, :, start:end] = new
        k, v = (kept[:, :, :end] for kept in cache)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Decoder(nn.Module):
    """A small language model."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(PROMPT + NEW, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: Tensor, caches: list[Cache], start: int, last_only: bool) -> Tensor:
        x = self.words(ids) + self.places.weight[start : start + ids.shape[1]]
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, cache, start)
        return self.head(self.norm(x[:, -1:] if last_only else x))


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder().eval()
    shape = (1, HEADS, PROMPT + NEW, WIDTH // HEADS)
    caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(LAYERS)]
    for _ in range(steps):  # each a request for a short answer
        ids, start = torch.randint(WORDS, (1, PROMPT)), 0
        for _ in range(NEW):
            scores = model(ids, caches, start, last_only=not flawed)[:, -1]
            start += ids.shape[1]
            ids = scores.argmax(1, keepdim=True)


if __name__ == "__main__":
    main(*arguments())
