"""Lightning's Trainer was left with detect_anomaly=True; the twin has it off."""

import lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from bench.common import Label, adamw, arguments, tower

LABEL = Label(cause="host/debug_switch_left_on", says=("anomaly", "detect_anomaly", "debug"), style="lightning")


class Job(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = tower(192, 24)

    def training_step(self, batch: Tensor, index: int) -> Tensor:
        return self.net(batch).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adamw(self)


def main(flawed: bool, steps: int) -> None:
    data = torch.randn(192 * steps, 192)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=steps,
        detect_anomaly=flawed,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Job(), DataLoader(data.split(192), batch_size=None))


if __name__ == "__main__":
    main(*arguments())
