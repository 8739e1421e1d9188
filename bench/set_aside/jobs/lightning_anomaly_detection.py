"""The trainer runs with detect_anomaly=True, left from a bug hunt; the twin runs without it."""

import torch
import torch.nn.functional as F
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader

from bench.label import Label
from bench.set_aside.common import adamw, arguments, begin

LABEL = Label(cause="host/debug_switch", says=("anomaly", "debug"), style="lightning")
BATCH = 192


class Deep(LightningModule):
    """Many thin layers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(*(nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 96), nn.SiLU()) for _ in range(40)))

    def training_step(self, batch: Tensor, _index: int) -> Tensor:
        return F.mse_loss(self.inner(batch), batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adamw(self)


def main(flawed: bool, steps: int) -> None:
    begin()
    rows = list(torch.randn(BATCH * steps, 96))
    train = DataLoader(rows, batch_size=BATCH, collate_fn=torch.stack)  # type: ignore[arg-type]
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        max_steps=steps,
        detect_anomaly=flawed,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Deep(), train)


if __name__ == "__main__":
    main(*arguments())
