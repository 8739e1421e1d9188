"""Text generation: a small GPT continues prompts, greedily, with a cache of keys and values. No training.

    python examples/generate.py --steps 1200

A step is one call of the model, which yields one token; the first call of a prompt reads all of it. Weights are random,
so the text is nonsense, but it costs what sense would cost. Nothing is downloaded. Uses a GPU if there is one.
"""

import argparse
import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

CHARACTERS = "".join(map(chr, range(32, 127)))  # one token each
VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = len(CHARACTERS), 256, 512, 8, 8
LONGEST = 200  # tokens after a prompt; with it they fit into the context
PROMPTS = (
    "Once upon a time there was a compiler that",
    "The three laws of performance are",
    "To be, or not to be:",
    "A step that waits for its data",
)

Cache = list[tuple[Tensor, Tensor]]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        batch, context, _ = x.shape
        mixed = self.query_key_value(self.attention_norm(x)).view(batch, context, 3, HEADS, -1)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        if past is not None:
            key, value = torch.cat((past[0], key), dim=2), torch.cat((past[1], value), dim=2)
        # One new token sees all before it; a prompt needs the mask.
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=past is None)
        x = x + self.project(attended.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.mlp_norm(x)), (key, value)


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """The logits of the next token, and the cache with these tokens in it."""
        seen = cache[0][0].shape[2] if cache else 0
        positions = torch.arange(seen, seen + tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        updated: Cache = []
        for number, block in enumerate(self.blocks):
            x, keys_and_values = block(x, cache[number] if cache else None)
            updated.append(keys_and_values)
        return self.head(self.norm(x[:, -1])), updated


@torch.inference_mode()
def continued(model: GPT, prompt: str, tokens: int, device: torch.device) -> str:
    """The most likely next token, again and again."""
    current, cache = torch.tensor([[CHARACTERS.index(character) for character in prompt]], device=device), None
    chosen = []
    for _ in range(tokens):
        logits, cache = model(current, cache)
        current = logits.argmax(dim=-1, keepdim=True)
        chosen.append(CHARACTERS[int(current)])
    return "".join(chosen)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1200)
    steps = parser.parse_args().steps

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = GPT().to(device).eval()
    done = 0
    for prompt in itertools.cycle(PROMPTS):
        text = continued(model, prompt, min(LONGEST, steps - done), device)
        done += len(text)
        print(f"{prompt}{text[:60]}")
        if done == steps:
            break
    print(f"done: {done} steps")


if __name__ == "__main__":
    main()
