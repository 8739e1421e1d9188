"""Padding: texts of 12 to 30 tokens are padded to 224; the twin pads to the longest of the batch."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

PAD, WORDS, WIDTH, HEADS, LAYERS, BATCH, MAXIMUM, TOPICS = 0, 5000, 128, 4, 2, 8, 224, 8


def texts(count, generator):
    for _ in range(count):
        lengths = torch.randint(12, 31, (BATCH,), generator=generator).tolist()
        yield [torch.randint(1, WORDS, (length,), generator=generator) for length in lengths]


def pad_to_maximum(rows):
    return torch.stack([F.pad(row, (0, MAXIMUM - len(row)), value=PAD) for row in rows])


def pad_to_longest(rows):
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


class TicketEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=PAD)
        self.places = nn.Embedding(MAXIMUM, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True)
            for _ in range(LAYERS)
        )
        self.topic = nn.Linear(WIDTH, TOPICS)

    def forward(self, tokens):
        padded = tokens == PAD
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=padded)
        kept = (~padded).unsqueeze(2).float()
        return self.topic((x * kept).sum(dim=1) / kept.sum(dim=1))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(151)
    collate = pad_to_maximum if sys.argv[1] == "flawed" else pad_to_longest
    generator = torch.Generator().manual_seed(152)
    model = TicketEncoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    for step, rows in enumerate(texts(12, generator)):
        tokens = collate(rows)
        loss = F.cross_entropy(model(tokens), torch.tensor([int(row[0]) % TOPICS for row in rows]))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: loss {loss.item():.4f}")
        del tokens, loss


if __name__ == "__main__":
    main()
