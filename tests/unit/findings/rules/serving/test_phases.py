"""RL-S01, a remark: how the steps of a serving engine divide into prefill and decode."""

import pytest

from redline.trace import schema
from tests.support.events import document, region
from tests.support.rules.matching import found, launched, matched
from tests.support.rules.serving import DECODE, MIXED, PREFILL, serving


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
