"""Logits: a cloze model scores all items at every position, though few are masked; the twin scores these alone."""

import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

ITEMS, WIDTH, MASK, IGNORED = 11000, 128, 0, -100


@dataclass
class Settings:
    only_masked: bool
    sessions: int = 8
    length: int = 48
    masked_per_session: int = 5
    steps: int = 12


class SessionModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(WIDTH)
        self.scores = nn.Linear(WIDTH, ITEMS)

    def encode(self, session):
        return self.norm(self.encoder(self.items(session))[0])


def cloze_batch(settings, generator):
    session = torch.randint(1, ITEMS, (settings.sessions, settings.length), generator=generator)
    targets = torch.full_like(session, IGNORED)
    for row in range(settings.sessions):
        hidden = torch.randperm(settings.length, generator=generator)[: settings.masked_per_session]
        targets[row, hidden] = session[row, hidden]
        session[row, hidden] = MASK
    return session, targets


def cloze_loss(model, session, targets, only_masked):
    encoded = model.encode(session).flatten(0, 1)
    targets = targets.flatten()
    if only_masked:
        masked = targets.ne(IGNORED).nonzero().squeeze(1)
        encoded, targets = encoded[masked], targets[masked]
    return F.cross_entropy(model.scores(encoded), targets, ignore_index=IGNORED)


def main(settings):
    torch.set_num_threads(1)
    torch.manual_seed(81)
    generator = torch.Generator().manual_seed(82)
    model = SessionModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(settings.steps):
        session, targets = cloze_batch(settings, generator)
        loss = cloze_loss(model, session, targets, settings.only_masked)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: loss {loss.item():.4f}")
        del session, targets, loss


if __name__ == "__main__":
    main(Settings(only_masked=sys.argv[1] == "healthy"))
