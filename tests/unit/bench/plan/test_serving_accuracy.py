"""How true predictions of serving are, on rows that no constant was fitted to, by engine."""

import numpy as np
import pytest

from bench.plan.serving import load_serving
from bench.plan.serving_accuracy import held_out_of, serving_accuracy
from bench.plan.serving_errors import log_errors, predicted

# The median of absolute errors on held-out rows, at most; the goal is 0.15.
MEDIANS = {
    ("gpt-fast", "tpot_s"): 0.04,
    ("SGLang", "tpot_s"): 0.13,
    ("SGLang", "ttft_s"): 0.36,
    ("SGLang", "tokens_per_s"): 0.15,
    ("TensorRT-LLM", "tokens_per_s"): 0.11,
    ("vLLM", "latency_s"): 0.05,
    ("vLLM", "tokens_per_s"): 0.10,
}
# I0018, Llama-3.1-70B in 16 bits on 2 A100: 62.4 ms, where the page has 46.9 for Llama-2-70B, which is 2 % smaller.
# I0033, int8 on MI250X: the only other row of that GPU is in 16 bits, so what unpacking costs there is not known.
OUTSIDE = {"I0018", "I0033"}


def test_held_out_errors_are_what_is_stated() -> None:
    found = held_out_of(serving_accuracy())
    assert set(found) == set(MEDIANS)
    for key, most in MEDIANS.items():
        assert found[key].median <= most, (key, found[key].median)


def test_intervals_hold_no_less_than_they_say() -> None:
    """More of the held-out half, whose models are known: intervals are those of models left out of the fit."""
    for table in held_out_of(serving_accuracy()).values():
        if table.rows > 30:
            assert table.covered is not None
            assert table.covered >= 0.75, (table.engine, table.metric, table.covered)


def test_every_decode_row_of_gpt_fast_is_within_15_percent_but_two() -> None:
    rows, _ = load_serving()
    error = np.abs(np.expm1(log_errors(rows, predicted(rows))["tpot_s"]))
    mine = {name: value for name, of, value in zip(rows.ids, rows.engine, error, strict=True) if of == "gpt-fast"}
    assert len(mine) == 33
    assert {name for name, value in mine.items() if value > 0.15} == OUTSIDE


def test_every_row_is_expressed_or_has_a_reason() -> None:
    rows, excluded = load_serving()
    ids = [*rows.ids, *(each for reason in excluded for each in reason.ids)]
    assert len(ids) == len(set(ids)) == 535
    assert {each.reason: len(each.ids) for each in excluded} == {
        "the same figures stand under another name": 12,
        "the shape of the model is not known for sure": 40,
        "a diffusion model: it does not write one token after another": 4,
        "the machine is not clear from the page": 6,
    }


@pytest.mark.parametrize(
    ("row", "gpu", "tp", "attention_dp", "requests", "cache_bytes"),
    [
        ("I0411", "MI300X", 1, 1, 10, 2),  # the section names the machine
        ("I0097", "B200-SXM", 8, 8, 3000, 1),  # a mixture of experts: attention is data parallel
        ("I0271", "GB200", 1, 1, 1000, 1),
        ("I0273", "H200-SXM", 1, 1, 1500, 2),  # on Hopper the cache stays in 16 bits
        ("I0322", "B200-SXM", 8, 1, 80, 2),
    ],
)
def test_what_rows_leave_out(row: str, gpu: str, tp: int, attention_dp: int, requests: int, cache_bytes: int) -> None:
    rows, _ = load_serving()
    at = rows.ids.index(row)
    assert rows.gpu[at] == gpu
    assert (rows.where.tp[at], rows.where.attention_dp[at]) == (tp, attention_dp)  # type: ignore[index]
    assert (rows.traffic.requests[at], rows.form.cache_bytes[at]) == (requests, cache_bytes)  # type: ignore[index]
