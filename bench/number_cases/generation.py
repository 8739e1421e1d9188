"""Follow given continuations of prompts with a small GPT and a cache of keys and values, and score each token."""

import math
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.number_cases.common import arguments, finish, generator, on, show

WIDTH, HEADS, SHARED, LAYERS, VOCABULARY, BATCH = 64, 4, 2, 2, 256, 4
SIZE = WIDTH // HEADS
PROMPT, LONGEST, PAGE = 12, 64, 4
LEFT_PADDING = torch.tensor([0, 3, 0, 5])


class Cache:
    """Keys and values of one layer, in memory that is taken once."""

    def __init__(self) -> None:
        kind = torch.bfloat16 if on("bf16_cache") else torch.float64 if on("fp64_cache") else torch.float32
        shape = (BATCH, SHARED, LONGEST, SIZE)
        self.keys, self.values = torch.zeros(shape, dtype=kind), torch.zeros(shape, dtype=kind)
        self.pages = torch.randperm(LONGEST // PAGE, generator=torch.Generator().manual_seed(5))

    def extend(self, keys: Tensor, values: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """All keys and values up to the new ones."""
        if on("growing_cache"):
            self.keys = torch.cat([self.keys[:, :, :start], keys.to(self.keys.dtype)], 2)
            self.values = torch.cat([self.values[:, :, :start], values.to(self.values.dtype)], 2)
            return self.keys, self.values
        end = start + keys.shape[2]
        places = torch.arange(start, end)
        if on("paged_cache"):
            self.keys[:, :, self.slots(places)] = keys
            self.values[:, :, self.slots(places)] = values
            everything = self.slots(torch.arange(end))
            return self.keys[:, :, everything], self.values[:, :, everything]
        self.keys[:, :, start:end] = keys.to(self.keys.dtype)
        self.values[:, :, start:end] = values.to(self.values.dtype)
        end = LONGEST if on("whole_cache_masked") else end
        return self.keys[:, :, :end].to(keys.dtype), self.values[:, :, :end].to(values.dtype)

    def slots(self, places: Tensor) -> Tensor:
        return self.pages[places // PAGE] * PAGE + places % PAGE


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary positions, different for each row of the batch."""
    angles = positions[:, None, :, None] * 10_000.0 ** (-torch.arange(0, SIZE, 2) / SIZE)
    a, b = x.chunk(2, -1)
    if on("rotary_complex"):
        turned = torch.complex(a.float(), b.float()) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], -1).to(x.dtype)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


def repeated(x: Tensor) -> Tensor:
    """Keys or values for all heads of queries."""
    if on("heads_in_wrong_groups"):
        return x.repeat(1, HEADS // SHARED, 1, 1)
    if on("expanded_heads"):
        return x[:, :, None].expand(-1, -1, HEADS // SHARED, -1, -1).flatten(1, 2)
    return x.repeat_interleave(HEADS // SHARED, 1)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    if on("library_groups"):
        return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    k, v = repeated(k), repeated(v)
    if on("causal_in_decode") and q.shape[2] == 1:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if on("manual_attention"):
        return (q @ k.mT / math.sqrt(SIZE)).masked_fill(~mask, float("-inf")).softmax(-1) @ v
    return F.scaled_dot_product_attention(q, k, v, mask, scale=1 / SIZE if on("softmax_scale") else None)


class Attention(nn.Module):
    def __init__(self, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.q, self.out = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, SHARED * SIZE, bias=False) for _ in range(2))

    def project(self, x: Tensor) -> list[Tensor]:
        if on("one_projection"):
            weight = torch.cat([self.q.weight, self.k.weight, self.v.weight])
            parts = F.linear(x, weight).split([WIDTH, SHARED * SIZE, SHARED * SIZE], -1)
        else:
            parts = (self.q(x), self.k(x), self.v(x))
        return [part.unflatten(-1, (-1, SIZE)).transpose(1, 2) for part in parts]

    def forward(self, x: Tensor, cache: Cache | None, start: int, positions: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.project(x)
        q, k = rotate(q, positions), rotate(k, positions)
        if cache is not None:
            if on("stale_slot") and self.layer == 1 and start == PROMPT + 1:
                k, v = (
                    cache.keys[:, :, start - 1 : start].to(k.dtype),
                    cache.values[:, :, start - 1 : start].to(v.dtype),
                )
            k, v = cache.extend(k, v, start)
            if on("newest_key_unseen") and start:
                k, v, mask = k[:, :, :-1], v[:, :, :-1], mask[..., :-1]
            if on("rows_swapped_in_cache") and start == PROMPT:
                order = torch.tensor([2, 1, 0, 3])
                k, v = k[order], v[order]
        return self.out(attend(q, k, v, mask[..., : k.shape[2]]).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, layer: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention(layer)
        self.norm2, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, cache: Cache | None, start: int, positions: Tensor, mask: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), cache, start, positions, mask))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(layer) for layer in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.1)

    def forward(self, tokens: Tensor, caches: list[Cache] | None, start: int) -> Tensor:
        """Logits of the last position."""
        end = start + tokens.shape[1]
        places = torch.arange(start, end)
        if on("position_off_by_one") and start:
            places = places - 1
        positions = places - (0 if on("positions_with_padding") else LEFT_PADDING[:, None])
        positions = positions.expand(BATCH, -1).clamp(0)
        mask = mask_of(start, end, LONGEST if on("whole_cache_masked") else end)
        x = self.embed(tokens)
        for number, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[number], start, positions, mask)
        if on("wrong_last_token") and not start:
            x = x[torch.arange(BATCH), PROMPT - 1 - LEFT_PADDING][:, None]
        return self.head(self.norm(x[:, -1:]))


def mask_of(start: int, end: int, keys: int) -> Tensor:
    """What each new position sees: what came before it in its row, without the padding on the left."""
    causal = torch.arange(keys)[None, :] <= torch.arange(start, end)[:, None]
    if on("padding_attended"):
        return causal.expand(BATCH, 1, -1, -1)
    padding = torch.arange(keys)[None, :] < LEFT_PADDING[:, None]
    own = torch.arange(keys)[None, :] == torch.arange(start, end)[:, None]  # no row may be all masked
    return ((causal & ~padding[:, None, :]) | own)[:, None]


def build() -> nn.Module:
    return GPT()


def logits_of(model: nn.Module, tokens: Tensor, caches: list[Cache], start: int, end: int) -> Tensor:
    """Of the token that follows `end`."""
    if on("no_cache"):
        return model(tokens[:, :end], None, 0)
    if on("prompt_in_two_parts") and not start:
        model(tokens[:, : PROMPT // 2], caches, 0)
        start = PROMPT // 2
    return model(tokens[:, start:end], caches, start)


def cast() -> AbstractContextManager[object]:
    return torch.autocast("cpu", torch.bfloat16) if on("bf16") else nullcontext()


def main() -> None:
    steps, seed = arguments()
    torch.manual_seed(seed)
    model = build()
    model.train(on("dropout_left_on"))
    tokens = torch.randint(0, VOCABULARY, (BATCH, PROMPT + steps), generator=generator(seed, 0))
    caches = [Cache()] * LAYERS if on("one_cache_for_all_layers") else [Cache() for _ in range(LAYERS)]
    start = 0
    with torch.inference_mode() if on("inference_mode") else torch.no_grad(), cast():
        for step in range(steps):
            end = PROMPT + step
            logits = logits_of(model, tokens, caches, start, end)
            show(step, F.cross_entropy(logits[:, 0].float(), tokens[:, end]))
            start = end
    finish(model)


if __name__ == "__main__":
    main()
