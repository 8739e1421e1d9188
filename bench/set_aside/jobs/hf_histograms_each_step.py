"""A callback takes histograms of all weights after each step; the twin takes them once, when training ends."""

import tempfile

import torch
from torch import nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from bench.label import Label
from bench.set_aside.common import arguments, begin, tokens

LABEL = Label(
    cause="host/logging_each_step",
    says=("histogram", "callback", "logging", "between steps", "outside the step", "on_step_end"),
    style="hf",
)
LENGTH, BATCH = 64, 8


class Histograms(TrainerCallback):
    """Counts of the values of each weight."""

    def __init__(self, each_step: bool) -> None:
        self.each_step = each_step
        self.taken: dict[str, list[float]] = {}

    def take(self, model: nn.Module) -> None:
        """One histogram per weight."""
        for name, p in model.named_parameters():
            self.taken[name] = torch.histogram(p.detach(), 64).hist.tolist()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: nn.Module
    ) -> None:
        if self.each_step:
            self.take(kwargs["model"])

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: nn.Module
    ) -> None:
        self.take(kwargs["model"])


def main(flawed: bool, steps: int) -> None:
    begin()
    model = GPT2LMHeadModel(GPT2Config(vocab_size=8000, n_positions=LENGTH, n_embd=128, n_layer=3, n_head=4))
    rows = [{"input_ids": row, "labels": row} for row in tokens(BATCH * steps, LENGTH)]
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            optim="adamw_torch_fused",
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        Trainer(model=model, args=options, train_dataset=rows, callbacks=[Histograms(flawed)]).train()


if __name__ == "__main__":
    main(*arguments())
