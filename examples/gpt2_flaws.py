"""A small GPT-2 that trains well and runs badly: ten usual performance flaws, each with a comment that names it.

    python examples/gpt2_flaws.py --steps 60
    torchrun --nproc-per-node 2 examples/gpt2_flaws.py    # two processes that know nothing of each other

The text is made up while the program runs; nothing is downloaded. Do not copy from this file.
"""

import argparse
import gc
import math
import random

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 512, 128, 128, 4, 4, 8
WORDS = ["the", "a", "small", "large", "red", "cat", "dog", "bird", "tree", "sees", "finds", "likes", "and", "runs"]


def tokenise(text: str) -> list[int]:
    """Byte pairs, greedily merged: an honest tokeniser in slow Python."""
    tokens = list(text.encode())
    for left in range(97, 123):
        merged, position = [], 0
        while position < len(tokens):
            pair = position + 1 < len(tokens) and tokens[position] == left
            merged.append(256 + (left * 31 + tokens[position + 1]) % 256 if pair else tokens[position])
            position += 2 if pair else 1
        tokens = merged
    return tokens


class Sentences(Dataset[Tensor]):
    def __init__(self, sentences: int) -> None:
        self.sentences = sentences

    def __len__(self) -> int:
        return self.sentences

    def __getitem__(self, index: int) -> Tensor:
        # Flaw 1: the text is tokenised anew whenever it is read, rather than once, before training.
        words = random.Random(index)
        tokens = tokenise(" ".join(words.choice(WORDS) for _ in range(2 * CONTEXT)))
        return torch.tensor(tokens[: CONTEXT + 1])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query_key_value, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, context, _ = x.shape
        query, key, value = self.query_key_value(x).view(batch, context, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        # Flaw 2: attention is written out; scaled_dot_product_attention does it without the large matrix of scores.
        scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])
        # Flaw 3: every layer makes the same mask in every forward pass, on the host, and copies it to the device.
        mask = torch.tril(torch.ones(context, context)).to(x.device)
        weights = scores.masked_fill(mask == 0, float("-inf")).softmax(dim=-1)
        return self.project((weights @ value).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.attention, self.mlp_norm = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class GPT2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        # Flaw 4: positions come from a Python list each time; a buffer would hold them on the device.
        positions = torch.tensor(list(range(tokens.shape[1]))).to(tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions(positions))))


def clip(model: nn.Module, limit: float) -> None:
    # Flaw 5: a wait for the device per parameter; torch.nn.utils.clip_grad_norm_ needs none.
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    total = math.sqrt(sum(gradient.norm().item() ** 2 for gradient in gradients))
    for gradient in gradients:
        gradient.mul_(min(1.0, limit / total))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # Flaw 6: no workers and no pinned memory: training stands still while a batch is prepared.
    loader = DataLoader(Sentences(steps * BATCH), batch_size=BATCH, num_workers=0, pin_memory=False)
    model = GPT2().to(device)
    # Flaw 7: some small kernels per parameter; foreach=True or fused=True takes them all together.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    for step, batch in enumerate(loader, start=1):
        tokens = batch.to(device)
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        clip(model, 1.0)
        optimizer.step()
        # Flaw 8: all logits are copied to the host, to compute a figure that is printed every tenth time only.
        accuracy = (logits.detach().cpu().argmax(dim=-1) == tokens[:, 1:].cpu()).float().mean()
        # Flaw 9: .item() in every step makes the host wait for the device.
        shown = loss.item()
        # Flaw 10: collecting garbage in every step costs time and frees next to nothing.
        gc.collect()
        if step % 10 == 0 or step == steps:
            print(f"step {step:4d}  loss {shown:.4f}  accuracy {accuracy:.3f}")
    print(f"done: {steps} steps")


if __name__ == "__main__":
    main()
