"""The Trainer of Lightning, with validation every ten steps and the sanity check of validation before the first.

Runs alone, under torchrun, and with `--devices 2` on ranks that it starts by itself. A step is one of the optimizer,
`global_step` of the Trainer.
"""

import argparse
import os

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        loss = nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], number: int) -> None:
        self.log("held_out", nn.functional.mse_loss(self.model(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def batches(examples: int) -> DataLoader[tuple[Tensor, ...]]:
    inputs = torch.randn(examples, 32)
    return DataLoader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), batch_size=8)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--devices", type=int, default=int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    options = parser.parse_args()
    lightning.seed_everything(0)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=options.devices,
        max_steps=options.steps,
        val_check_interval=10,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=2,
        limit_val_batches=2,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Regression(), batches(512), batches(64))
    if trainer.is_global_zero:
        print(f"loss {trainer.callback_metrics['held_out'].item():.6f}")
        print(f"done: {trainer.global_step} steps")


if __name__ == "__main__":
    main()
