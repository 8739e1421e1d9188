"""A callback saves model and optimizer after every third batch; the twin saves once, after the last."""

import tempfile

import torch
import torch.nn.functional as F
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from bench.set_aside_2.common import Label, adamw, arguments, begin, residual_mlp

LABEL = Label(
    cause="host/checkpoint_saved_often",
    says=("checkpoint", "save", "serialis", "serializ", "between steps"),
    pattern="every 3 steps",
    style="lightning",
)
BATCH, COLUMNS = 128, 256


class Table(LightningModule):
    """Classifies rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = residual_mlp(COLUMNS, 768, 5, 32)

    def training_step(self, batch: list[Tensor], _index: int) -> Tensor:
        return F.cross_entropy(self.inner(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adamw(self)


def main(flawed: bool, steps: int) -> None:
    begin()
    rows = TensorDataset(torch.randn(BATCH * steps, COLUMNS), torch.randint(32, (BATCH * steps,)))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=1,
            max_steps=steps,
            callbacks=[ModelCheckpoint(folder, every_n_train_steps=3 if flawed else steps, save_top_k=-1)],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Table(), DataLoader(rows, BATCH))


if __name__ == "__main__":
    main(*arguments())
