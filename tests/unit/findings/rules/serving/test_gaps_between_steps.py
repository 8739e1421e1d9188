"""RL-ID03: a serving engine leaves the device idle between its steps, while requests wait for their next token."""

import pytest

from tests.support.events import Event, document, kernel, launch, region
from tests.support.rules.matching import claimed_ns, found, matched
from tests.support.rules.serving import DECODE, PREFILL


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
