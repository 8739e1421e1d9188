"""accelerator.save_state is called every fourth step and training waits; the twin calls it once, at the end."""

import tempfile

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens

LABEL = Label(
    cause="host/blocking_checkpoint",
    says=("checkpoint", "save", "writing", "disk"),
    pattern="every 4 steps",
    style="accelerate",
)
BATCH = 2


def main(flawed: bool, steps: int) -> None:
    begin()
    accelerator = Accelerator(cpu=True)
    rows = list(tokens(BATCH * steps, 48))
    model = Decoder(layers=2, width=128, vocabulary=24_000)
    model, optimizer, loader = accelerator.prepare(
        model,
        adamw(model),
        DataLoader(rows, batch_size=BATCH, collate_fn=torch.stack),  # type: ignore[arg-type]
    )
    with tempfile.TemporaryDirectory() as folder:
        for step, text in enumerate(loader):
            accelerator.backward(next_token_loss(model(text), text))
            optimizer.step()
            optimizer.zero_grad()
            if step == steps - 1 or (flawed and step % 4 == 3):
                accelerator.save_state(folder)


if __name__ == "__main__":
    main(*arguments())
