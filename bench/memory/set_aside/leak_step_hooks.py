"""Leak: every step registers a forward hook that closes over its batch, and the hooks are never removed."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

STEPS, USERS, ITEMS, DENSE, BATCH = 12, 3000, 2000, 1024, 192


def tower(inputs):
    return nn.Sequential(nn.Linear(inputs, 768), nn.ReLU(), nn.Linear(768, 512), nn.ReLU(), nn.Linear(512, 64))


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, 64)
        self.item = nn.Embedding(ITEMS, 64)
        self.user_tower = tower(64 + DENSE)
        self.item_tower = tower(64)

    def forward(self, user, item, profile):
        left = self.user_tower(torch.cat([self.user(user), profile], dim=1))
        right = self.item_tower(self.item(item))
        return (left * right).sum(dim=1)


class ClickLog:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def next_batch(self):
        user = torch.randint(0, USERS, (BATCH,), generator=self.generator)
        item = torch.randint(0, ITEMS, (BATCH,), generator=self.generator)
        profile = torch.randn(BATCH, DENSE, generator=self.generator)
        clicked = torch.randint(0, 2, (BATCH,), generator=self.generator).float()
        return user, item, profile, clicked


def watch_scale(model, profile, report):
    """Note how large what the tower makes of a batch is, relative to the batch."""

    def note(module, inputs, output):
        report.append((output.detach().norm() / profile.norm()).item())

    return model.user_tower.register_forward_hook(note)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(41)
    log, model, report = ClickLog(42), TwoTower(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(STEPS):
        user, item, profile, clicked = log.next_batch()
        handle = watch_scale(model, profile, report)
        scores = model(user, item, profile)
        loss = F.binary_cross_entropy_with_logits(scores, clicked)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if sys.argv[1] == "healthy":
            handle.remove()
        print(f"step {step}: loss {loss.item():.4f}, scale {report[-1]:.4f}")
        del user, item, profile, clicked, scores, loss, handle


if __name__ == "__main__":
    main()
