"""Optimizer temporaries: foreach Adam makes temporaries as large as all parameters; the twin is fused."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

NOTES, WIDTH, LENGTH, BATCH = 130, 256, 24, 2


def make_optimizer(parameters, side):
    implementation = {"flawed": {"foreach": True}, "healthy": {"fused": True}}[side]
    return torch.optim.Adam(parameters, lr=2e-4, weight_decay=1e-2, **implementation)


class MusicModel(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        self.notes = nn.Embedding(NOTES, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, nhead=8, dim_feedforward=4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.decoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.next_note = nn.Linear(WIDTH, NOTES)
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, notes):
        return self.next_note(self.decoder(self.notes(notes) + self.places, mask=self.causal, is_causal=True))


def melodies(count, generator):
    for _ in range(count):
        yield torch.randint(0, NOTES, (BATCH, LENGTH + 1), generator=generator)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(101)
    model = MusicModel()
    optimizer = make_optimizer(model.parameters(), sys.argv[1])
    for step, melody in enumerate(melodies(12, torch.Generator().manual_seed(102))):
        prediction = model(melody[:, :-1])
        loss = F.cross_entropy(prediction.transpose(1, 2), melody[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: loss {loss.item():.4f}")
        del prediction, loss


if __name__ == "__main__":
    main()
