"""Steps of a serving engine: what they are, and what they wait for."""

import pytest

from redline.trace import schema
from tests.support.events import Event, document, kernel, launch, region
from tests.support.rules.matching import BF16, calls, claimed_ns, described, found, launched, machine, matched
from tests.support.rules.serving import DECODE, MIXED, PREFILL, serving

# RL-S01, a remark: how the steps of a serving engine divide into prefill and decode.


def test_labels_of_engines_tell_phase_requests_and_tokens() -> None:
    told = {
        DECODE: ("decode", 4, 4),
        PREFILL: ("prefill", 2, 3000),
        "execute_context_1(888_788544)_generation_0(0)": ("prefill", 1, 888),
        "execute_8192_context_9(sq8155sk8430)_generation_37(sq37sk34489)": ("mixed", 46, 8192),
        "step[EXTEND bs=2 toks=12 c_sqsq=80]": ("prefill", 2, 12),
        "step[DECODE bs=32]": ("decode", 32, 32),
        MIXED: ("mixed", 2, 0),
        "ProfilerStep#7": ("", 0, 0),
    }
    assert {label: (schema.phase_of(label), *schema.load_of(label)) for label in told} == told


def test_s01_divides_the_time_by_phase() -> None:
    events = [region(PREFILL, 0, 300), *launched("gemm", 5, 295, 1, at=0)]
    events += [region(DECODE, 300, 100), *launched("gemv", 305, 45, 2, at=301)]
    remark = found(document(events))["RL-S01"]
    assert remark.bound_ns == remark.alone_ns == 0
    prefill, load, unknown, decode, few = remark.evidence
    assert prefill.values["phase"] == "prefill"
    assert prefill.values["time_share"] == pytest.approx(297 / 397)  # without 3 us of queue before the first kernel
    assert prefill.values["busy_share"] == pytest.approx(295 / 297)
    assert load.values == {"requests": 2, "tokens": 3000}
    assert "unknown" in unknown.message
    assert decode.values == {
        "phase": "decode",
        "steps": 1,
        "all_steps": 2,
        "time_share": pytest.approx(100 / 397),
        "busy_share": 0.45,
    }
    assert few.values == {"requests": 4, "tokens": 4}


def test_s01_says_nothing_of_training() -> None:
    assert "RL-S01" not in matched(document(serving("ProfilerStep#1", 50)))


# RL-ID01: a serving engine launches every kernel of a step on its own, and the device waits for the launches.


@pytest.mark.parametrize("label", [DECODE, PREFILL, MIXED])
def test_id01_claims_the_gaps_of_a_step_that_launches_each_kernel(label: str) -> None:
    data = document(serving(label, 50))
    # 150 us between two kernels and 2 before the first; what the device waited for after the last is not recorded.
    assert claimed_ns(data, "RL-ID01") == 4 * 150_000 + 2_000
    (evidence,) = found(data)["RL-ID01"].evidence
    assert evidence.values == {
        "engine_steps": 1,
        "bound_steps": 1,
        "kernels": 5,
        "busy_share": pytest.approx(250 / 997),  # 3 us of queue before the first kernel are nobody's
    }


def test_id01_is_silent_with_graphs_or_a_busy_device_or_in_training() -> None:
    assert "RL-ID01" not in matched(document(serving(DECODE, 50, graph=True)))
    assert "RL-ID01" not in matched(document(serving(DECODE, 145)))
    assert "RL-ID01" not in matched(document(serving("ProfilerStep#1", 50)))


def test_serving_engines_have_no_other_finding_about_launches() -> None:
    assert not {"RL-H01", "RL-H02"} & matched(document(serving(DECODE, 5))).keys()


def test_id01_does_not_count_queue_time_before_the_first_work_of_a_stream() -> None:
    """Work of the step before, which was not recorded, may have run: an engine launches ahead of its device."""
    events = [region(DECODE, 0, 100)]
    events += [launch(0, 1), kernel("index", 3, 4, correlation=1, stream=9)]
    events += [launch(10, 2), kernel("attention", 10_000, 80, correlation=2)]
    events += [launch(20, 3), kernel("gemm", 10_080, 80, correlation=3)]
    assert not {"RL-ID01", "RL-H01", "RL-H02"} & matched(document(events)).keys()
    (remark, *_) = found(document(events))["RL-S01"].evidence
    assert remark.values["busy_share"] == pytest.approx(164 / 171)  # idle for two launches, 2 and 5 us


def test_id01_says_that_stacks_inflate_it() -> None:
    data = document(serving(DECODE, 50), with_stack=1)
    assert "stacks" in found(data)["RL-ID01"].evidence[-1].message


# RL-ID02: decode steps read all weights for a few tokens, at nearly the full bandwidth of the memory.


WEIGHTS = described(BF16, [4, 4096], [4096, 4096])
# The bytes of the product in 80 us, its arithmetic in less than one.
READING_BYTES = 2 * (4096 * 4096 + 2 * 4 * 4096)


def decoding(label: str = DECODE, us: float = 500) -> bytes:
    return document([region(label, 0, 600), *calls(("aten::mm", WEIGHTS), us=us)[1:]])


def test_id02_claims_what_weights_of_four_bits_do_not_need() -> None:
    near = machine(gb_per_s=READING_BYTES / 400e-6 / 1e9, bf16=1000)
    assert claimed_ns(decoding(), "RL-ID02", near) == 400_000  # 500 us, less a quarter of 400
    (evidence,) = found(decoding(), machine=near)["RL-ID02"].evidence
    assert evidence.values == {
        "read_bytes": READING_BYTES,
        "bandwidth_share": pytest.approx(0.8),
        "product_share": pytest.approx(500 / 593),  # without 7 us of queue before it
    }


def test_id02_is_silent_far_from_the_roof_in_other_phases_and_where_products_are_few() -> None:
    near = machine(gb_per_s=READING_BYTES / 400e-6 / 1e9, bf16=1000)
    far = machine(gb_per_s=READING_BYTES / 250e-6 / 1e9, bf16=1000)
    assert "RL-ID02" not in matched(decoding(), far)
    assert "RL-ID02" not in matched(decoding(PREFILL), near)
    assert "RL-ID02" not in matched(decoding(us=250), near)
    assert "RL-ID02" not in matched(decoding(), None)


# RL-ID03: a serving engine leaves the device idle between its steps, while requests wait for their next token.


def engine(*labels: str, apart: float = 200) -> bytes:
    """Steps of 1000 us whose device is busy from 5 us on to the end, so far apart."""
    events: list[Event] = []
    for number, label in enumerate(labels):
        at = number * (1000 + apart)
        events += [region(label, at, 1000), launch(at, number + 1)]
        events += [kernel("attention", at + 5, 995, correlation=number + 1)]
    return document(events)


def test_id03_claims_the_gaps_before_steps_that_generate() -> None:
    data = engine(DECODE, DECODE, DECODE)
    assert claimed_ns(data, "RL-ID03") == 2 * 200_000
    (evidence,) = found(data)["RL-ID03"].evidence
    assert (evidence.values["gaps"], evidence.values["gap_ns"]) == (2, 200_000)
    assert evidence.values["step_ns"] == pytest.approx(3_400_000 / 3)


def test_id03_is_silent_where_the_engine_may_have_waited_for_requests() -> None:
    assert "RL-ID03" not in matched(engine(DECODE, PREFILL, PREFILL))


def test_id03_is_silent_about_short_gaps_and_in_training() -> None:
    assert "RL-ID03" not in matched(engine(DECODE, DECODE, DECODE, apart=190))
    assert "RL-ID03" not in matched(engine("ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"))
