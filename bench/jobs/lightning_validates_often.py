"""Lightning validates six batches after every fourth step (val_check_interval=4); the twin once an epoch."""

import lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(
    cause="host/evaluation_often",
    says=("evaluation", "eval", "validation"),
    pattern="every 4 steps",
    style="lightning",
)


class Job(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = LM()

    def training_step(self, batch: Tensor, index: int) -> Tensor:
        return lm_loss(self.net, batch)

    def validation_step(self, batch: Tensor, index: int) -> Tensor:
        return lm_loss(self.net, batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adamw(self)


def main(flawed: bool, steps: int) -> None:
    train = DataLoader([tokens() for _ in range(1000)], batch_size=None)  # type: ignore[arg-type, var-annotated]
    held_out = DataLoader([tokens() for _ in range(6)], batch_size=None)  # type: ignore[arg-type, var-annotated]
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=steps,
        val_check_interval=4 if flawed else 1000,
        logger=False,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Job(), train, held_out)


if __name__ == "__main__":
    main(*arguments())
