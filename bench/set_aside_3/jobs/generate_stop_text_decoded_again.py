"""To find a stop word, the whole text is decoded again after every token; the twin decodes the last few tokens."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="host/whole_text_decoded_every_token",
    says=("decode", "detokeni", "tokenizer", "stopping", "stop", "Python", "criteria"),
    kind="generation",
    style="hf",
)
transformers: Any = import_module("transformers")
tokenizers: Any = import_module("tokenizers")
WORDS, PROMPT, BATCH, STOP = 4000, 1024, 8, "<|end of answer|>"


def small_tokenizer() -> Any:
    """Of bytes and of made-up words."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = letters + [f"\u0120w{number}" for number in range(WORDS - len(letters))]
    made = tokenizers.Tokenizer(tokenizers.models.BPE({word: place for place, word in enumerate(words)}, []))
    made.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


class StopAtText(transformers.StoppingCriteria):
    """Ends those texts of a batch that hold the stop word."""

    def __init__(self, tokenizer: Any, flawed: bool) -> None:
        self.tokenizer, self.flawed = tokenizer, flawed

    def __call__(self, input_ids: Tensor, scores: Tensor, **_: Any) -> Tensor:
        seen = input_ids if self.flawed else input_ids[:, -len(STOP) :]
        return torch.tensor([STOP in text for text in self.tokenizer.batch_decode(seen)])


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_embd=96, n_layer=3, n_head=3, n_positions=2048, bos_token_id=None, eos_token_id=None
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.randint(WORDS, (BATCH, PROMPT))
    model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=steps,
        do_sample=True,
        top_k=50,
        pad_token_id=0,
        stopping_criteria=[StopAtText(small_tokenizer(), flawed)],
    )


if __name__ == "__main__":
    main(*arguments())
