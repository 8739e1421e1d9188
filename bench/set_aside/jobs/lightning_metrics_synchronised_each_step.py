"""Sixty-four metrics are logged with sync_dist=True in each step, an all-reduce apiece; the twin logs their mean as one."""

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from torch.utils.data import DataLoader

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens

LABEL = Label(
    cause="communication/blocking_small_all_reduces",
    says=("all-reduce", "all_reduce", "allreduce", "small collective", "coalesc", "sync_dist", "metric"),
    ranks=2,
    style="lightning",
)
BATCH, CLASSES = 8, 64


class Text(LightningModule):
    """A language model that counts its words."""

    def __init__(self, apart: bool) -> None:
        super().__init__()
        self.inner, self.apart = Decoder(layers=1, width=128), apart

    def training_step(self, batch: Tensor, _index: int) -> Tensor:
        counts = torch.bincount(batch.flatten() % CLASSES, minlength=CLASSES).float()
        if self.apart:
            self.log_dict({f"share-{k}": count for k, count in enumerate(counts)}, sync_dist=True)
        else:
            self.log("share", counts.mean(), sync_dist=True)
        return next_token_loss(self.inner(batch), batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adamw(self)


def main(flawed: bool, steps: int) -> None:
    begin()
    rows = list(tokens(BATCH * steps * 2))
    train = DataLoader(rows, batch_size=BATCH, collate_fn=torch.stack)  # type: ignore[arg-type]
    trainer = Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        max_steps=steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Text(flawed), train)


if __name__ == "__main__":
    main(*arguments())
