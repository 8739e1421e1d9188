"""generate() is called for each of eight prompts in turn; the twin calls it once for all of them."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from bench.common import Label, arguments, tokens

LABEL = Label(cause="serving/batch_of_one", says=("batch",), kind="generation", style="hf")


def main(flawed: bool, steps: int) -> None:
    config = GPT2Config(vocab_size=1024, n_positions=128, n_embd=768, n_layer=6, n_head=12)
    model = GPT2LMHeadModel(config).eval()
    prompts = tokens(8, 16)
    with torch.inference_mode():
        for some in prompts.split(1 if flawed else 8):
            model.generate(
                some,
                attention_mask=torch.ones_like(some),
                max_new_tokens=steps,
                min_new_tokens=steps,
                do_sample=False,
                use_cache=True,
                pad_token_id=0,
                eos_token_id=None,
                bos_token_id=0,
            )


if __name__ == "__main__":
    main(*arguments())
