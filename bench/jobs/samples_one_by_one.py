"""The model is called for each sample of the batch in a Python loop; the twin calls it once for the batch."""

import torch

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="kernels/micro_batch_too_small", says=("batch",))


def main(flawed: bool, steps: int) -> None:
    model = LM(width=128, layers=4)
    optimizer, batch = adamw(model), tokens(16, 33)
    for _ in range(steps):
        if flawed:
            loss = torch.stack([lm_loss(model, sample[None]) for sample in batch]).mean()
        else:
            loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
