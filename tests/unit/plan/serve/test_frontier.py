"""The frontier of serving: nothing on it is beaten, everything beside it is."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from redline.hardware.catalogue import record
from redline.model.huggingface import describe
from redline.plan.serve.plan import frontier, undominated
from redline.plan.serve.setup import Traffic, constants_of, device_of, format_named

LLAMA_70B = describe(layers=80, hidden=8192, heads=64, kv_heads=8, head_dim=128, ffn=28672, vocab=128256)
PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), min_size=1, max_size=30)


@given(PAIRS)
def test_undominated_is_what_comparing_all_pairs_says(rows: list[tuple[int, int, bool]]) -> None:
    first, second, allowed = (np.array(each) for each in zip(*rows, strict=True))
    kept = undominated(first.astype(float), second.astype(float), allowed)
    points = {(a, b) for a, b, ok in rows if ok}
    best = {(a, b) for a, b in points if not any((c >= a and d >= b) and (c, d) != (a, b) for c, d in points)}
    assert {(first[i], second[i]) for i in np.flatnonzero(kept)} == best
    assert kept.sum() == len(best)


def test_a_frontier_trades_speed_for_users_against_throughput() -> None:
    machine = record("H100-SXM5-80GB")
    assert machine is not None
    found = frontier(
        LLAMA_70B,
        device_of(machine),
        constants_of("SGLang", machine.name),
        Traffic(concurrency=1, prompt=1000, output=1000),
        formats=[format_named("bf16"), format_named("fp8")],
    )
    outcome, best = found.outcome, found.best
    order = np.argsort(outcome.tokens_per_s_user[best])
    assert np.all(np.diff(outcome.tokens_per_s_device[best][order]) < 0)
    # 141 GB in 16 bits do not fit on one GPU of 80 GB.
    alone = (found.tp == 1) & (np.array(found.format_names) == "bf16")
    assert not np.any(outcome.fits[alone])
    assert not np.any(best[alone])
    fastest = np.argmax(np.where(best, outcome.tokens_per_s_user, 0))
    assert (found.tp[fastest], found.concurrency[fastest], found.format_names[fastest]) == (8, 1, "fp8")


def test_mixtures_are_also_tried_with_attention_data_parallel() -> None:
    mixture = describe(
        layers=4, hidden=512, heads=8, ffn=0, vocab=1000, dense_layers=0, moe_layers=4, experts=8, experts_per_token=2,
        expert_ffn=512,
    )  # fmt: skip
    machine = record("H100-SXM5-80GB")
    assert machine is not None
    found = frontier(
        mixture,
        device_of(machine),
        constants_of("SGLang", machine.name),
        Traffic(concurrency=1, prompt=100, output=100),
        formats=[format_named("bf16")],
        sizes=(1, 2),
        batches=(1.0, 8.0),
    )
    tried = sorted(zip(found.tp.tolist(), found.attention_dp.tolist(), strict=True))
    assert tried == [(1, 1), (1, 1), (2, 1), (2, 1), (2, 2), (2, 2)]
