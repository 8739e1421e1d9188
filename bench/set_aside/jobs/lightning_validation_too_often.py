"""The trainer validates on everything after every fourth batch; the twin validates once, after the last."""

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from torch.utils.data import DataLoader

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens

LABEL = Label(
    cause="host/frequent_evaluation", says=("evaluat", "validation"), pattern="every 4 steps", style="lightning"
)
BATCH = 8


class Text(LightningModule):
    """A language model."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Decoder(layers=2)

    def training_step(self, batch: Tensor, _index: int) -> Tensor:
        return next_token_loss(self.inner(batch), batch)

    def validation_step(self, batch: Tensor, _index: int) -> None:
        next_token_loss(self.inner(batch), batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adamw(self)


def main(flawed: bool, steps: int) -> None:
    begin()
    train = DataLoader(list(tokens(BATCH * steps)), batch_size=BATCH, collate_fn=torch.stack)  # type: ignore[arg-type]
    check = DataLoader(list(tokens(64)), batch_size=16, collate_fn=torch.stack)  # type: ignore[arg-type]
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        max_steps=steps,
        val_check_interval=4 if flawed else steps,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Text(), train, check)


if __name__ == "__main__":
    main(*arguments())
