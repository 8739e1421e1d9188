"""A processor of generate() changes the scores of seen tokens one by one; the twin does it for all at once."""

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList

from bench.common import Label, arguments, tokens

LABEL = Label(
    cause="serving/sampling_in_python",
    says=("sampling", "sample", "tolist", "Python"),
    kind="generation",
    style="hf",
)
PENALTY = 1.2


class SeenInPython(LogitsProcessor):
    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        rows = scores.tolist()
        for row, seen in zip(rows, input_ids.tolist(), strict=True):
            for token in range(len(row)):
                if token in seen:
                    row[token] = row[token] / PENALTY if row[token] > 0 else row[token] * PENALTY
        return torch.tensor(rows)


class Seen(LogitsProcessor):
    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        chosen = scores.gather(1, input_ids)
        return scores.scatter(1, input_ids, torch.where(chosen > 0, chosen / PENALTY, chosen * PENALTY))


def main(flawed: bool, steps: int) -> None:
    config = GPT2Config(vocab_size=4096, n_positions=128, n_embd=512, n_layer=4, n_head=8)
    model = GPT2LMHeadModel(config).eval()
    prompt = tokens(8, 16)
    with torch.inference_mode():
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            logits_processor=LogitsProcessorList([SeenInPython() if flawed else Seen()]),
            max_new_tokens=steps,
            min_new_tokens=steps,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
            bos_token_id=0,
        )


if __name__ == "__main__":
    main(*arguments())
