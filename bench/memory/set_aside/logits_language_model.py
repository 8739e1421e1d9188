"""Logits: a language model makes the logits of all positions at once; the twin computes the loss in chunks."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 9000, 128, 4, 2, 112, 4
CHUNK = 28


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.fc1 = nn.Linear(WIDTH, 4 * WIDTH)
        self.fc2 = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(c, dim=2)
        q, k, v = (part.view(b, t, HEADS, c // HEADS).transpose(1, 2) for part in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def features(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.ln(x)


def whole_loss(model, hidden, targets):
    logits = model.lm_head(hidden)
    return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def chunk_loss(head, hidden, targets):
    return F.cross_entropy(head(hidden), targets, reduction="sum")


def chunked_loss(model, hidden, targets):
    total = hidden.new_zeros(())
    parts = zip(hidden.flatten(0, 1).split(CHUNK), targets.flatten().split(CHUNK), strict=True)
    for hidden_part, targets_part in parts:
        total = total + checkpoint(chunk_loss, model.lm_head, hidden_part, targets_part, use_reentrant=False)
    return total / targets.numel()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(71)
    compute_loss = whole_loss if sys.argv[1] == "flawed" else chunked_loss
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
    for step in range(12):
        tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))
        loss = compute_loss(model, model.features(tokens[:, :-1]), tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: loss {loss.item():.4f}")
        del tokens, loss


if __name__ == "__main__":
    main()
