"""generate() answers each of eight prompts in turn with three tokens; the twin calls it once for all of them."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from bench.common import Label, arguments, tokens

LABEL = Label(cause="serving/batch_of_one", says=("batch",), kind="generation", style="hf")

ANSWER = 3  # tokens


def main(flawed: bool, steps: int) -> None:
    config = GPT2Config(vocab_size=1024, n_positions=128, n_embd=768, n_layer=6, n_head=12)
    model = GPT2LMHeadModel(config).eval()
    batches = [tokens(8, 16) for _ in range(-(-steps // ANSWER))]
    with torch.inference_mode():
        for some in (part for batch in batches for part in batch.split(1 if flawed else 8)):
            model.generate(
                some,
                attention_mask=torch.ones_like(some),
                max_new_tokens=ANSWER,
                min_new_tokens=ANSWER,
                do_sample=False,
                use_cache=True,
                pad_token_id=0,
                eos_token_id=None,
                bos_token_id=0,
            )


if __name__ == "__main__":
    main(*arguments())
