"""Two optimizer steps under an Accelerate config, on gloo; the last line says what Accelerate made of it."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, MICRO_BATCH, SEQUENCE, TOKENS = 2, 2, 16, 64


def main() -> None:
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Embedding(TOKENS, 32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, TOKENS))
    rows = STEPS * MICRO_BATCH * accelerator.num_processes * accelerator.gradient_accumulation_steps
    texts = TensorDataset(torch.randint(0, TOKENS, (rows, SEQUENCE)))
    model, optimizer, loader = accelerator.prepare(
        plain, torch.optim.AdamW(plain.parameters()), DataLoader(texts, batch_size=MICRO_BATCH)
    )
    steps = 0
    for (text,) in loader:
        with accelerator.accumulate(model):
            accelerator.backward(nn.functional.cross_entropy(model(text).flatten(0, 1).float(), text.flatten()))
            optimizer.step()
            optimizer.zero_grad()
            steps += accelerator.sync_gradients
    print(f"steps={steps} processes={accelerator.num_processes} accumulated={accelerator.gradient_accumulation_steps}")


main()
