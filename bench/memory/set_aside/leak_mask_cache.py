"""Leak: attention biases are cached under the lengths of the batch, which differ in every step, and never evicted."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

STEPS, WIDTH, HEADS, LAYERS, WORDS, TAGS = 12, 320, 8, 2, 600, 12

bias_cache = {}


def build_bias(lengths):
    """The bias of each head grows with distance (ALiBi); keys beyond the length of a sequence are masked."""
    longest = max(lengths)
    positions = torch.arange(longest)
    distance = (positions[:, None] - positions[None, :]).abs().float()
    slopes = torch.tensor([2.0 ** -(head + 1) for head in range(HEADS)])
    bias = (-slopes[:, None, None] * distance).repeat(len(lengths), 1, 1, 1)
    for row, length in enumerate(lengths):
        bias[row, :, :, length:] = float("-inf")
    return bias


def cached_bias(lengths):
    key = tuple(lengths)
    if key not in bias_cache:
        bias_cache[key] = build_bias(lengths)
    return bias_cache[key]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, bias):
        rows, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(rows, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, TAGS)

    def forward(self, words, bias):
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(x)


def sentences(generator):
    lengths = [128, int(torch.randint(90, 128, (1,), generator=generator))]
    words = torch.randint(0, WORDS, (2, 128), generator=generator)
    tags = torch.randint(0, TAGS, (2, 128), generator=generator)
    for row, length in enumerate(lengths):
        tags[row, length:] = -100
    return words, tags, lengths


def main(side):
    torch.set_num_threads(1)
    torch.manual_seed(21)
    generator = torch.Generator().manual_seed(22)
    bias_of = cached_bias if side == "flawed" else build_bias
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step in range(STEPS):
        words, tags, lengths = sentences(generator)
        scores = model(words, bias_of(lengths))
        loss = F.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=-100)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: loss {loss.item():.4f}")
        del words, tags, scores, loss


if __name__ == "__main__":
    main(sys.argv[1])
