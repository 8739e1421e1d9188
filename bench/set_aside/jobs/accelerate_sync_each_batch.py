"""Accelerate accumulates four batches but exchanges gradients after each (sync_each_batch=True); the twin exchanges after the fourth."""

import torch
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin
from torch.utils.data import DataLoader

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens

LABEL = Label(
    cause="communication/exchange_each_micro_batch",
    says=("no_sync", "sync_each_batch", "micro-batch", "microbatch", "accumulat"),
    ranks=2,
    style="accelerate",
)
MICRO, BATCH = 4, 2


def main(flawed: bool, steps: int) -> None:
    begin()
    plugin = GradientAccumulationPlugin(num_steps=MICRO, sync_each_batch=flawed)
    accelerator = Accelerator(cpu=True, gradient_accumulation_plugin=plugin)
    rows = list(tokens(BATCH * MICRO * steps * accelerator.num_processes, 32))
    model = Decoder(layers=3)
    model, optimizer, loader = accelerator.prepare(
        model,
        adamw(model),
        DataLoader(rows, batch_size=BATCH, collate_fn=torch.stack),  # type: ignore[arg-type]
    )
    for text in loader:
        with accelerator.accumulate(model):
            accelerator.backward(next_token_loss(model(text), text))
            optimizer.step()
            optimizer.zero_grad()
    accelerator.end_training()


if __name__ == "__main__":
    main(*arguments())
