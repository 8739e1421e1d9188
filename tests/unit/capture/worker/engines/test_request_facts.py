"""What a request asks for, and where prompts begin alike."""

from types import SimpleNamespace

import pytest

from redline.capture.worker.engines.vllm_engine import MOST_PREFIXES, PREFIX_TOKENS, asks_of, prefix_numbers

UNASKED = {
    "logprobs": None,
    "prompt_logprobs": None,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "structured_outputs": None,
    "logit_bias": None,
    "allowed_token_ids": None,
    "bad_words": None,
}


@pytest.mark.parametrize(
    ("changed", "asks"),
    [
        ({}, []),
        ({"top_k": -1}, []),
        ({"logprobs": 0}, ["logprobs"]),
        ({"prompt_logprobs": 5}, ["logprobs"]),
        ({"repetition_penalty": 1.1}, ["penalties"]),
        ({"top_p": 0.9, "top_k": 50}, ["filters"]),
        ({"structured_outputs": SimpleNamespace(json="{}")}, ["structure"]),
        ({"bad_words": ["no"], "logit_bias": {3: -100.0}}, ["biases"]),
    ],
)
def test_what_a_request_asks_for(changed: dict[str, object], asks: list[str]) -> None:
    assert asks_of(SimpleNamespace(**{**UNASKED, **changed})) == asks


def test_a_request_without_parameters_asks_for_nothing() -> None:
    assert asks_of(None) == []
    assert asks_of(SimpleNamespace()) == []


def test_prompts_that_begin_alike_have_the_same_numbers_up_to_there() -> None:
    common = list(range(3 * PREFIX_TOKENS))
    one, other = prefix_numbers([*common, *range(200)]), prefix_numbers([*common, *range(100, 300)])
    assert one[:3] == other[:3]
    assert not set(one[3:]) & set(other[3:])
    assert prefix_numbers([9, *common])[0] != one[0]


@pytest.mark.parametrize(
    ("tokens", "numbers"), [(0, 0), (63, 0), (64, 1), (127, 1), (128, 2), (100_000, MOST_PREFIXES)]
)
def test_whole_blocks_are_numbered(tokens: int, numbers: int) -> None:
    assert len(prefix_numbers([1] * tokens)) == numbers


def test_a_prompt_of_other_things_than_tokens_has_none() -> None:
    assert prefix_numbers(None) == []
