"""A transformers model is loaded with attn_implementation="eager"; the twin uses "sdpa"."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bench.common import Label, adamw, arguments, tokens

LABEL = Label(cause="kernels/unfused_attention", says=("attention", "sdpa", "scaled_dot_product"), style="hf")


def main(flawed: bool, steps: int) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        use_cache=False,
        attn_implementation="eager" if flawed else "sdpa",
    )
    model = LlamaForCausalLM(config).train()
    optimizer, batch = adamw(model), tokens(2, 512)
    for _ in range(steps):
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
