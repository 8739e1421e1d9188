"""What a request asks for, and where its prompt begins like others: without its text, and without its tokens."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

PREFIX_TOKENS = 64  # that one number stands for
MOST_PREFIXES = 64  # of a prompt
# A name for it, the attributes of SamplingParams, and what they are where nobody asks.
_ASKS: tuple[tuple[str, tuple[str, ...], tuple[Any, ...]], ...] = (
    ("logprobs", ("logprobs", "prompt_logprobs"), (None,)),
    ("penalties", ("presence_penalty", "frequency_penalty", "repetition_penalty"), (0, 1)),
    ("filters", ("top_k", "top_p", "min_p"), (0, 1, -1)),
    ("structure", ("structured_outputs",), (None,)),
    ("biases", ("logit_bias", "allowed_token_ids", "bad_words"), (None, [], {})),
)


def asks_of(params: Any) -> list[str]:
    """Names of what makes the choice of a token dearer."""
    return [
        name
        for name, attributes, unasked in _ASKS
        if params is not None and any(getattr(params, one, unasked[0]) not in unasked for one in attributes)
    ]


def prefix_numbers(tokens: Sequence[int] | None) -> list[int]:
    """One for each whole block at the beginning of a prompt, made of all tokens up to its end.

    Hashes of integers are the same in every process. They do not give a prompt away, but a guess can be checked.
    """
    numbers: list[int] = []
    known = 0
    for start in range(0, min(len(tokens or ()), PREFIX_TOKENS * MOST_PREFIXES) - PREFIX_TOKENS + 1, PREFIX_TOKENS):
        known = hash((known, *(tokens or ())[start : start + PREFIX_TOKENS]))
        numbers.append(known)
    return numbers
