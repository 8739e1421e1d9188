"""Rules about serving engines, and remarks about the trace: each fires on its trace and not on its counter-trace."""

import pytest

from redline.trace import schema
from tests.conftest import Event, document, kernel, launch, region, span
from tests.unit.findings.conftest import (
    BF16,
    FP32,
    calls,
    claimed_ns,
    described,
    found,
    launched,
    machine,
    matched,
    step,
)

DECODE = "execute_context_0(0)_generation_4(4)"
PREFILL = "execute_context_2(3000)_generation_0(0)"
MIXED = "step[MIXED bs=2]"


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


# --- RL-ID01: launches ------------------------------------------------------------------------------------------------


def serving(label: str, us: float, *, graph: bool = False) -> list[Event]:
    """A step of 1000 us with five kernels, 200 us apart, each begun as soon as it is launched."""
    events = [region(label, 0, 1000)]
    for place in range(5):
        at = 200 * place
        name = "cudaGraphLaunch" if graph and place == 2 else "cudaLaunchKernel"
        events += [launch(at, place + 1, name=name), kernel("attention", at + 5, us, correlation=place + 1)]
    return events


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


# --- RL-ID02: memory --------------------------------------------------------------------------------------------------

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


# --- RL-S01: phases ---------------------------------------------------------------------------------------------------


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
    assert "not known" in unknown.message
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


# --- RL-R06: what recording costs -------------------------------------------------------------------------------------


def waiting(us: float, *further: Event, **recorded: int) -> bytes:
    """A step of 1000 us in which the device waits so long for the host."""
    return document([step(0, 0, 1000), *launched("gemm", us, 1000 - us, 1, at=us - 2), *further], **recorded)


PYTHON = span("python_function", "train.py(3): step", 0, 900, args={"Python id": 1, "Python parent id": None})
MEMORY: Event = {
    "ph": "i",
    "cat": "cpu_instant_event",
    "name": "[memory]",
    "pid": 100,
    "tid": 1,
    "ts": 5,
    "args": {"Bytes": 1, "Device Id": 0},
}


def test_r06_counts_what_was_recorded() -> None:
    first, second = found(waiting(500, PYTHON, MEMORY))["RL-R06"].evidence
    assert first.values == {"python_calls": 1}
    assert second.values == {"waiting_share": 0.5}
    assert found(waiting(500, MEMORY))["RL-R06"].evidence[0].values == {"events": 1}
    assert "Modules" in found(waiting(500, with_modules=1))["RL-R06"].evidence[0].message


def test_r06_is_silent_where_nothing_costly_was_recorded_or_the_host_keeps_up() -> None:
    assert "RL-R06" not in matched(waiting(500, record_shapes=1))
    assert "RL-R06" not in matched(waiting(90, PYTHON))


# --- RL-R07: noise ----------------------------------------------------------------------------------------------------


def steps(*lengths: float) -> bytes:
    events, at = [], 0.0
    for number, length in enumerate(lengths):
        events += [step(number, at, length), *launched("gemm", at + 2, length - 2, number + 1, at=at)]
        at += length
    return document(events)


def test_r07_fires_on_few_or_uneven_steps() -> None:
    assert found(steps(100, 100))["RL-R07"].evidence[0].values == {"steps": 2}
    # The step of 200 is not of usual length; the others are 120 and 80 in turn: 20 of 100.
    (evidence,) = found(steps(120, 80, 200, 120, 80))["RL-R07"].evidence
    assert evidence.values == {"steps": 5, "spread_share": pytest.approx(0.2)}


def test_r07_is_silent_on_even_steps() -> None:
    assert "RL-R07" not in found(steps(100, 100, 100))
    assert "RL-R07" not in found(steps(300, 100, 105, 95))


def test_r07_counts_the_steps_that_every_rank_has() -> None:
    assert found(steps(100, 100, 100), steps(100, 100))["RL-R07"].evidence[0].values == {"steps": 2}


# --- RL-R08: numerics -------------------------------------------------------------------------------------------------


def test_r08_names_the_findings_whose_fix_changes_numbers() -> None:
    data = document(calls(("aten::mm", described(FP32, [64, 64], [64, 64]))))
    codes = found(data, machine=machine(fp32=1, bf16=10))
    assert codes["RL-R08"].evidence[0].values == {"codes": "RL-C02"}
    assert codes["RL-R08"].bound_ns == 0


def test_r08_is_silent_where_no_fix_does() -> None:
    data = document(calls(("aten::relu", described(FP32, [64, 64])), ("aten::relu", described(FP32, [64, 64]))))
    codes = found(data)
    assert "RL-B01" in codes
    assert "RL-R08" not in codes
