"""A GPT-2 trained with the Trainer of Hugging Face transformers, on sentences that are made up.

    pip install transformers accelerate
    python examples/hf_finetune.py --steps 100 --gradient-accumulation 2
    torchrun --nproc-per-node 2 examples/hf_finetune.py

The model is a small configuration with random weights, and its vocabulary is a list of words: nothing is downloaded.
"""

import argparse
import random
import tempfile

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

ARTICLES, ADJECTIVES = ["the", "a", "every", "no"], ["small", "large", "red", "green", "quick", "quiet", "old", "new"]
NOUNS = ["cat", "dog", "bird", "tree", "house", "model", "kernel", "stream", "tensor", "batch"]
VERBS = ["sees", "finds", "likes", "follows", "copies", "waits for", "runs under", "sleeps over"]
VOCABULARY = {word: number for number, word in enumerate((*ARTICLES, *ADJECTIVES, *NOUNS, *VERBS, "."))}
LENGTH = 64


class Sentences(Dataset[dict[str, Tensor]]):
    """Sentences such as "the small cat follows no old kernel.", one after another."""

    def __init__(self, examples: int, seed: int) -> None:
        self.examples, self.seed = examples, seed

    def __len__(self) -> int:
        return self.examples

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        chance = random.Random(self.seed + index)
        words: list[str] = []
        while len(words) < LENGTH:
            words += [chance.choice(kind) for kind in (ARTICLES, ADJECTIVES, NOUNS, VERBS, ARTICLES, ADJECTIVES, NOUNS)]
            words.append(".")
        tokens = torch.tensor([VOCABULARY[word] for word in words[:LENGTH]])
        return {"input_ids": tokens, "labels": tokens}


def small_gpt2() -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=len(VOCABULARY),
        n_positions=LENGTH,
        n_embd=128,
        n_layer=4,
        n_head=4,
        bos_token_id=None,
        eos_token_id=None,
    )
    return GPT2LMHeadModel(config)


def settings(folder: str, steps: int, accumulation: int) -> TrainingArguments:
    return TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=accumulation,
        learning_rate=1e-3,
        warmup_steps=5,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        ddp_find_unused_parameters=False,
        use_cpu=not torch.cuda.is_available(),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--gradient-accumulation", type=int, default=1)
    options = parser.parse_args()

    set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=small_gpt2(),
            args=settings(folder, options.steps, options.gradient_accumulation),
            train_dataset=Sentences(4096, seed=0),
            eval_dataset=Sentences(64, seed=1_000_000),
        )
        trainer.train()
        trainer.evaluate()
        if trainer.is_world_process_zero():
            print(f"done: {trainer.state.global_step} steps")


if __name__ == "__main__":
    main()
