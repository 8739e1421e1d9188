"""`generate` of Hugging Face transformers, with a tiny GPT-2 of random weights.

A step is one call of the model, which yields one token; how often `generate` was called is printed too.
"""

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel

TOKENS = 16


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=10)
    calls = parser.parse_args().calls
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=256, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=None
    )
    model = GPT2LMHeadModel(config).eval()
    tokens = 0
    for _ in range(calls):
        prompt = torch.randint(256, (2, 8))
        text = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=TOKENS, do_sample=False, pad_token_id=0
        )
        tokens += text.shape[1] - prompt.shape[1]
    print(f"generate was called {calls} times")
    print(f"done: {tokens} steps")


if __name__ == "__main__":
    main()
