"""Matrix products that are far from their roof, or of too few rows."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.events import Event, document, op, region
from tests.support.rules.matching import BF16, calls, claimed_ns, described, found, machine, matched, step

# RL-C19: one product with much of the kernel time, far from what the device could do.


PRODUCT = ("aten::mm", described(BF16, [1024, 1024], [1024, 1024]))  # 2.147 GFLOP: 21.5 us at 100 TFLOP/s
DEVICE = machine(bf16=100, gb_per_s=10_000)


def test_c19_claims_all_beyond_the_roof() -> None:
    data = document(calls(PRODUCT, PRODUCT))
    assert claimed_ns(data, "RL-C19", DEVICE) == pytest.approx(2 * (100_000 - 21_475), abs=2)
    first, _ = found(data, machine=DEVICE)["RL-C19"].evidence
    assert first.values["roof_share"] == pytest.approx(0.2147, abs=0.001)
    assert first.values["shapes"] == "1024x1024, 1024x1024"


def test_c19_is_silent_near_the_roof_and_on_unknown_devices() -> None:
    assert "RL-C19" not in matched(document(calls(PRODUCT, PRODUCT, us=40)), DEVICE)
    assert "RL-C19" not in matched(document(calls(PRODUCT, PRODUCT)))


def test_c19_leaves_a_small_share_alone() -> None:
    other = ("aten::mystery", described(BF16, [1024, 1024]))
    assert "RL-C19" not in matched(document(calls(PRODUCT, *[other] * 7)), DEVICE)


# RL-C06: matrix products of too few rows: reading the weights takes longer than multiplying with them.


FEW = described(BF16, [8, 4096], [4096, 4096])
SWIFT = machine(bf16=1000, gb=80)


def reserving(share: float) -> Event:
    args = {"Bytes": 1, "Total Allocated": 1, "Total Reserved": round(share * 80e9), "Device Id": 0, "Device Type": 1}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 1, "ts": 5, "args": args}


def test_c06_claims_what_more_rows_would_not_need() -> None:
    data = document(calls(("aten::mm", FEW)))
    assert claimed_ns(data, "RL-C06", SWIFT) == 99_732  # 100 us, less 2 * 8 * 4096**2 FLOPs at 1000 TFLOP/s
    first, second = found(data, machine=SWIFT)["RL-C06"].evidence
    assert first.values["rows"] == "8"
    assert "not recorded" in second.message


def test_c06_says_how_much_memory_is_free() -> None:
    events = [*calls(("aten::mm", FEW)), reserving(0.5)]
    assert found(document(events), machine=SWIFT)["RL-C06"].evidence[1].values == {"free_share": pytest.approx(0.5)}


def test_c06_is_silent_without_free_memory() -> None:
    assert "RL-C06" not in matched(document([*calls(("aten::mm", FEW)), reserving(0.9)]), SWIFT)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(described(BF16, [4096, 4096], [4096, 4096]), id="enough rows"),
        pytest.param(described(BF16, [4096, 4096], [4096, 8]), id="few features, not few rows"),
    ],
)
def test_c06_is_silent_with_enough_rows(args: dict[str, Any]) -> None:
    assert "RL-C06" not in matched(document(calls(("aten::mm", args))), SWIFT)


def test_c06_is_silent_for_batched_products_and_serving_engines() -> None:
    batched = described(BF16, [64, 8, 512], [64, 512, 512])
    assert "RL-C06" not in matched(document(calls(("aten::bmm", batched))), SWIFT)
    serving = [region("step[DECODE bs=8]", 0, 1000), *calls(("aten::mm", FEW))[1:]]
    assert "RL-C06" not in matched(document(serving), SWIFT)


def test_c06_leaves_a_small_share_alone() -> None:
    assert "RL-C06" not in matched(document(calls(("aten::mm", FEW), us=40)), SWIFT)


# RL-B02: fires on passes over few rows, and leaves larger batches, single passes and decoding alone.


NODE = "autograd::engine::evaluate_function: AddmmBackward0"
GRADIENT = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


def linear(ts: float, *sizes: int, number: int = 0) -> Event:
    known: dict[str, Any] = {"Input Dims": [[*sizes, 64], [64, 64]]}
    if number:
        known |= {"Sequence number": number, "Fwd thread id": 0}
    return op("aten::linear", ts, 50, **known)


def accumulated(passes: int, *sizes: int, more: Sequence[Event] = ()) -> bytes:
    """A step of 1000 us with so many passes of 200 us: half of it forward, half backward."""
    events = [step(0, 0, 1000), *more]
    for number in range(1, passes + 1):
        at = 200 * (number - 1)
        events.append(linear(at, *sizes, number=number))
        events.append(op(NODE, at + 100, 100, **{"Sequence number": number, "Fwd thread id": 1}))
    return document(events)


def test_b02_claims_all_passes_but_the_first() -> None:
    data = accumulated(4, 1, 16)
    assert claimed_ns(data, "RL-B02") == 3 * 200_000
    values = found(data)["RL-B02"].evidence[0].values
    assert (values["passes"], values["rows"]) == (4, 16)


@pytest.mark.parametrize(
    ("passes", "sizes"),
    [
        pytest.param(4, (1, 48), id="enough rows"),
        pytest.param(1, (1, 16), id="one pass"),
    ],
)
def test_b02_leaves_other_training_alone(passes: int, sizes: tuple[int, ...]) -> None:
    assert "RL-B02" not in matched(accumulated(passes, *sizes))


def test_b02_leaves_micro_batches_of_a_pipeline_alone() -> None:
    """Stages compute at the same time only where there are several."""
    sent = region("gloo:send", 900, 20, tid=7)
    assert "RL-B02" not in matched(accumulated(4, 1, 16, more=[sent]))


def answered(*sizes: int, more: Sequence[Event] = ()) -> bytes:
    return document([step(0, 0, 100), linear(0, *sizes), linear(50, *sizes), *more])


def test_b02_claims_requests_that_are_answered_one_by_one() -> None:
    data = answered(1, 24)
    assert claimed_ns(data, "RL-B02") == 100_000
    assert found(data)["RL-B02"].evidence[0].message.startswith("Requests are computed one by one")


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((4, 6), id="a batch of several"),
        pytest.param((1, 64), id="a long request"),
        pytest.param((1, 1), id="decoding"),
        pytest.param((), id="decoding, one dimension"),
    ],
)
def test_b02_leaves_other_inference_alone(sizes: tuple[int, ...]) -> None:
    attention = op("aten::scaled_dot_product_attention", 0, 0)
    assert "RL-B02" not in matched(answered(*sizes, more=[attention]))


@pytest.mark.parametrize("sizes", [(1,), ()], ids=["a batch of one", "a vector"])
def test_b02_claims_single_rows_that_are_no_tokens(sizes: tuple[int, ...]) -> None:
    assert claimed_ns(answered(*sizes), "RL-B02") == 100_000


def looped(calls: int, *, parameters: int, samples: int = 1) -> bytes:
    """One backward pass through so many calls of a layer."""
    events = [step(0, 0, 1000), *(linear(50 * at, samples, 16, number=at + 1) for at in range(calls))]
    events.append(op(NODE, 700, 100, **{"Sequence number": 1, "Fwd thread id": 1}))
    events += [op(GRADIENT, 810 + 10 * at, 5, **{"Fwd thread id": 1}) for at in range(parameters)]
    return document(events)


def test_b02_claims_a_loop_over_samples_inside_one_backward_pass() -> None:
    (evidence, *_) = found(looped(8, parameters=2))["RL-B02"].evidence
    assert evidence.message.startswith("The model is called for one sample after the other")


def test_b02_leaves_loops_alone_over_whole_batches_or_other_layers() -> None:
    assert "RL-B02" not in matched(looped(8, parameters=2, samples=2))
    assert "RL-B02" not in matched(looped(8, parameters=8))


@pytest.mark.parametrize(
    ("rows", "is_found"),
    [
        pytest.param((16, 1, 1, 16, 1, 1), True, id="texts one after the other"),
        pytest.param((16, 1, 1, 1), False, id="one text"),
        pytest.param((16, 17, 18, 19), False, id="a text without a cache"),
    ],
)
def test_b02_tells_requests_from_a_text_that_goes_on(rows: tuple[int, ...], is_found: bool) -> None:
    events = [linear(50 * at, 1, number) for at, number in enumerate(rows)]
    assert ("RL-B02" in matched(document([step(0, 0, 50 * len(rows)), *events]))) is is_found


def flat(texts: int) -> bytes:
    """Texts of 16 tokens, whose layers make samples and positions one size, then one token more of each; twice."""
    events = []
    for at, length in enumerate((16, 1, 16, 1)):
        looked_up: list[dict[str, Any]] = [{"Input Dims": [[1024, 64], [size, length]]} for size in (texts, 1)]
        known: dict[str, Any] = {"Input Dims": [[64], [texts * length, 64], [64, 64], [], []]}
        events += [op("aten::embedding", 100 * at + 10 * place, 10, **args) for place, args in enumerate(looked_up)]
        events.append(op("aten::addmm", 100 * at + 20, 80, **known))
    return document([step(0, 0, 400), *events])


def test_b02_tells_samples_by_the_tokens_where_layers_do_not_show_them() -> None:
    assert "RL-B02" in matched(flat(1))
    assert "RL-B02" not in matched(flat(2))
