"""Borders of steps: those of the host, unless the device lags far behind it."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from redline.ledger.accounts import Account
from redline.ledger.rank.digest import digest_of
from redline.ledger.rank.rank_analysis import RankAnalysis, analysis_of
from tests.support.events import Event, document, kernel, launch, op, read_one, region
from tests.support.machines import PRODUCT, machine_with
from tests.support.real_traces import RealTraces

PERIOD_US = 100


def analysis(events: Sequence[Event]) -> RankAnalysis:
    with TemporaryDirectory() as folder:
        return analysis_of(read_one(document(events), Path(folder)), None)


def steps(found: RankAnalysis) -> list[tuple[int, int]]:
    """Starts and ends in microseconds since the first event."""
    pairs = zip(found.ledger.start_ns.tolist(), found.ledger.end_ns.tolist(), strict=True)
    return [(start // 1000, end // 1000) for start, end in pairs]


def running_ahead(host_us: int, count: int = 3, *, extra: Sequence[Event] = ()) -> list[Event]:
    """A host that takes this long for steps whose work takes the device a period each."""
    events = list(extra)
    for number in range(count):
        at, runs_at = number * host_us, 10 + number * PERIOD_US
        events += [
            region(f"ProfilerStep#{number}", at, host_us),
            op("aten::mm", at + 1, 4, **PRODUCT),
            launch(at + 2, number + 1),
            kernel("gemm", runs_at, PERIOD_US, correlation=number + 1),
        ]
    return events


def test_a_device_that_lags_ends_steps_where_it_ends_their_work() -> None:
    found = analysis(running_ahead(40))
    assert steps(found) == [(0, 110), (110, 210), (210, 310)]
    assert found.ledger.of(Account.UNRATED) == 300_000


def test_a_device_that_keeps_up_leaves_the_borders_of_the_host() -> None:
    events = [
        event
        for number in range(3)
        for event in (
            region(f"ProfilerStep#{number}", number * 100, 100),
            launch(number * 100 + 2, number + 1),
            kernel("gemm", number * 100 + 10, 98, correlation=number + 1),  # 8 us beyond its step
        )
    ]
    assert steps(analysis(events)) == [(0, 100), (100, 200), (200, 300)]


def test_work_of_before_the_first_step_is_not_in_it() -> None:
    before = [launch(-30, 99), kernel("gemm", -20, 30, correlation=99)]
    assert steps(analysis(running_ahead(40, extra=before)))[0] == (40, 140)  # the trace begins 30 us earlier


def test_what_another_stream_does_late_moves_no_border() -> None:
    saved = [launch(5, 98), kernel("copy to save", 10, 250, correlation=98, stream=9)]
    assert steps(analysis(running_ahead(40, extra=saved)))[0] == (0, 110)


def test_a_host_that_ends_after_its_device_ends_the_step() -> None:
    events = [*running_ahead(40), region("ProfilerStep#3", 120, 400)]
    assert steps(analysis(events))[-1] == (310, 520)


def test_arithmetic_is_that_of_the_steps_of_the_host() -> None:
    with TemporaryDirectory() as folder:
        made = digest_of(read_one(document(running_ahead(40)), Path(folder)), machine_with(1000, 1600))
    (fp32,) = made.arithmetic
    assert fp32.flops == 3 * 2 * 64**3


PERIODS_MS = {
    "hta_ns_resolution_rank0.pt.trace.json.gz": 96.0,
    "h800_deepseek_v3_train_dualpipe.json.gz": 129.0,
    "mi300_resnet_act_checkpoint.json.gz": 19.0,
}


@pytest.mark.needs_traces
@pytest.mark.parametrize(("name", "period_ms"), PERIODS_MS.items())
def test_steps_of_real_devices_are_within_a_percent_of_their_period(
    name: str, period_ms: float, traces: RealTraces, tmp_path: Path
) -> None:
    data = (traces / name).read_bytes()
    found = analysis_of(read_one(data, tmp_path, name), None)
    average_ms = found.steps_ns / len(found.ledger.start_ns) / 1e6
    assert average_ms == pytest.approx(period_ms, rel=0.01)
