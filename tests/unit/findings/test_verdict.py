"""A verdict calls healthy only what is proven to be: rated, near its roof, and with little lost outside kernels."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from redline.findings.finding import Limit, Verdict
from redline.findings.usual_steps import is_usual, without_warm_up
from redline.findings.verdict import praise_of, verdict_of
from redline.hardware.machine import Machine
from redline.ledger.job.first_screen import outline_of
from redline.ledger.rank.rank_analysis import analysis_of
from tests.support.events import Event, collective, document, kernel, launch, op, read_one
from tests.support.rules.matching import described, diagnosis, machine, step

STEP_US = 100


def busy(until_us: float, *more: Event) -> bytes:
    """A step whose device computes from its beginning until then, and does nothing or something else afterwards."""
    work = [launch(0, 1), kernel("gemm", 0, until_us, correlation=1)]
    return document([step(0, 0, STEP_US), *work, *more])


def copied(ts: float, dur: float) -> list[Event]:
    return [launch(ts, 2), kernel("Memcpy DtoD", ts, dur, correlation=2, category="gpu_memcpy")]


def verdict(data: bytes, machine: Machine | None = None) -> Verdict:
    """As if no rule had found anything."""
    known = diagnosis(data, machine=machine)
    return verdict_of(known, outline_of(known), ())


# 80 us of work at the peak of 1 TFLOP/s in fp32: 2 x 100 x 1000 x 400 FLOP
PRODUCT = described("float", [100, 1000], [1000, 400])
PEAK = machine(fp32=1)


def rated(until_us: float, *more: Event) -> bytes:
    """The same with a product of known work, which needs 80 us."""
    work = [op("aten::mm", 0, 5, **PRODUCT), launch(1, 1), kernel("gemm", 0, until_us, correlation=1)]
    return document([step(0, 0, STEP_US), *work, *more])


@pytest.mark.parametrize(("until_us", "healthy"), [(95, True), (91, True), (89, False), (84, False)])
def test_a_job_that_idles_much_is_not_healthy_even_if_nobody_knows_why(until_us: float, healthy: bool) -> None:
    found = verdict(rated(until_us), machine=PEAK)
    assert found.limit is Limit.COMPUTE
    assert found.idle_share == pytest.approx(1 - until_us / STEP_US)
    assert found.healthy is healthy


@pytest.mark.parametrize(("tflops", "healthy", "limit"), [(1, True, "compute"), (2, False, "kernel efficiency")])
def test_kernels_far_from_their_roof_are_not_healthy(tflops: float, healthy: bool, limit: str) -> None:
    found = verdict(rated(99), machine=machine(fp32=tflops))
    assert (found.healthy, str(found.limit)) == (healthy, limit)
    assert found.roof_share == pytest.approx(0.8 / tflops / 0.99, rel=0.01)


def test_kernels_that_nobody_could_rate_are_not_healthy() -> None:
    found = verdict(busy(99))
    assert (found.healthy, found.limit, found.rated_share) == (False, Limit.UNRATED, 0)


def test_copies_count_as_lost() -> None:
    found = verdict(rated(88, *copied(88, 12)), machine=PEAK)
    assert not found.healthy
    assert found.copy_share == pytest.approx(0.12)
    assert found.idle_share == pytest.approx(0)


def test_a_window_without_steps_is_not_called_healthy() -> None:
    work = [op("aten::mm", 0, 5, **PRODUCT), launch(1, 1), kernel("gemm", 0, 99, correlation=1)]
    assert not verdict(document(work), machine=PEAK).healthy


def test_all_waiting_is_added_up_before_kernels_are_what_limits() -> None:
    found = verdict(busy(40, collective(40, 35)))
    assert found.limit is Limit.COMMUNICATION
    assert found.limit_share == pytest.approx(0.35)
    assert found.lost_share == pytest.approx(0.6)


def test_a_job_that_communicates_is_not_healthy() -> None:
    found = verdict(busy(40, collective(40, 60)))
    assert (found.limit, found.healthy) == (Limit.COMMUNICATION, False)


def test_a_job_that_copies_is_limited_by_overhead() -> None:
    found = verdict(busy(40, *copied(40, 60)))
    assert (found.limit, found.healthy) == (Limit.OVERHEAD, False)
    assert found.limit_share == pytest.approx(0.6)


def test_how_far_the_peak_is_cannot_be_said_where_nothing_is_rated() -> None:
    assert verdict(busy(95)).math_share is None


def test_queues_before_the_first_recorded_work_are_no_idle_time_of_this_job() -> None:
    late = [launch(0, 1), kernel("gemm", 50, 50, correlation=1)]
    found = verdict(document([step(0, 0, STEP_US), *late]))
    assert found.judged_idle_share == pytest.approx(0, abs=0.05)
    assert found.idle_share == pytest.approx(0.5)
    assert found.unjudged_share == pytest.approx(0.5, abs=0.05)
    assert not found.healthy


# --- praise -----------------------------------------------------------------------------------------------------------


def praised(data: bytes) -> list[str]:
    known = diagnosis(data)
    outline = outline_of(known)
    return [one.message for one in praise_of(known, outline, verdict_of(known, outline, ()))]


@pytest.mark.parametrize(("start_us", "is_praised"), [(10, True), (40, False)])
def test_communication_is_praised_where_it_is_hidden(start_us: float, is_praised: bool) -> None:
    texts = praised(busy(60, collective(start_us, 40)))
    assert any("Communication overlaps" in text for text in texts) is is_praised


# --- steady steps -----------------------------------------------------------------------------------------------------


def test_a_step_of_a_third_more_is_not_usual() -> None:
    assert is_usual(np.array([100, 100, 100, 100, 129, 131, 140])).tolist() == [True] * 5 + [False] * 2


@pytest.mark.parametrize(("amounts", "steps"), [([30, 10, 10], 2), ([14, 10, 10], 3), ([30], 1)])
def test_a_first_step_with_more_of_something_warms_up(amounts: Sequence[int], steps: int) -> None:
    events = [step(number, 200 * number, STEP_US) for number in range(len(amounts))]
    events += [kernel("gemm", 200 * number, 50, correlation=number) for number in range(len(amounts))]
    with TemporaryDirectory() as folder:
        analysis = analysis_of(read_one(document(events), Path(folder)), None)
    assert len(without_warm_up(analysis, np.array(amounts))) == steps
