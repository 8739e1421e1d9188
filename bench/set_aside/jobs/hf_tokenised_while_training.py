"""The dataset tokenises raw text word by word each time a sample is read, in the training process; the twin tokenised it beforehand."""

import re
import tempfile

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from bench.label import Label
from bench.set_aside.common import arguments, begin

LABEL = Label(
    cause="input/tokenising_while_training",
    says=("token", "worker", "loader", "data loading", "num_workers"),
    style="hf",
)
LENGTH, BATCH = 64, 8
WORD = re.compile(r"\w+|[^\w\s]")


class Text(Dataset[dict[str, Tensor]]):
    """Articles of 4,000 words, cut to what the model takes."""

    def __init__(self, count: int, late: bool) -> None:
        self.raw = [" ".join(f"w{(7 * k + n) % 997}," for k in range(4000)) for n in range(8)]
        self.table = {f"w{k}": k + 1 for k in range(997)}
        self.count, self.late = count, late
        self.ready = [] if late else [self.tokenise(text) for text in self.raw]

    def tokenise(self, text: str) -> Tensor:
        """Words to numbers."""
        return torch.tensor([self.table.get(word.lower(), 0) for word in WORD.findall(text)][:LENGTH])

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        ids = self.tokenise(self.raw[index % 8]) if self.late else self.ready[index % 8]
        return {"input_ids": ids, "labels": ids}


def main(flawed: bool, steps: int) -> None:
    begin()
    model = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_positions=LENGTH, n_embd=128, n_layer=3, n_head=4))
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
        Trainer(model=model, args=options, train_dataset=Text(BATCH * steps, flawed)).train()


if __name__ == "__main__":
    main(*arguments())
