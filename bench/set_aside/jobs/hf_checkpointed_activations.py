"""gradient_checkpointing=True was copied from a recipe for a large model; the twin, with memory to spare, leaves it off."""

import tempfile

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from bench.label import Label
from bench.set_aside.common import arguments, begin, tokens

LABEL = Label(
    cause="kernels/needless_recomputation", says=("recomput", "checkpointing", "gradient_checkpointing"), style="hf"
)
LENGTH, BATCH = 64, 8


def main(flawed: bool, steps: int) -> None:
    begin()
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=256, n_positions=LENGTH, n_embd=128, n_layer=5, n_head=4, use_cache=False)
    )
    rows = [{"input_ids": row, "labels": row} for row in tokens(BATCH * steps, LENGTH, 256)]
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            optim="adamw_torch_fused",
            use_cpu=True,
            gradient_checkpointing=flawed,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        Trainer(model=model, args=options, train_dataset=rows).train()


if __name__ == "__main__":
    main(*arguments())
