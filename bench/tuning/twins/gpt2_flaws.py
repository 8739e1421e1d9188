"""examples/gpt2_flaws.py, tuned by hand. Workers and compiled blocks were tried, and made it slower on two cores."""

import argparse
import gc
import sys
from pathlib import Path

import torch
from torch.nn import functional
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from examples.gpt2_flaws import BATCH, GPT2, Sentences, clip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    loader = DataLoader(Sentences(steps * BATCH), batch_size=BATCH, num_workers=0)
    model = GPT2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step, tokens in enumerate(loader, start=1):
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip(model, 1.0)
        optimizer.step()
        accuracy = (logits.detach().cpu().argmax(dim=-1) == tokens[:, 1:].cpu()).float().mean()
        shown = loss.item()
        if step == 3:
            gc.freeze()  # what is there by now stays: the collection of each step looks at new objects only
        gc.collect()
        if step % 10 == 0 or step == steps:
            print(f"step {step:4d}  loss {shown:.4f}  accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
