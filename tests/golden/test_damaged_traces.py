"""Every damaged trace of the corpus through the reader: what is whole is read, what is not is named and counted."""

import gzip
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from redline import errors
from redline.cli import main
from redline.timeline.problems import Reason
from redline.timeline.timeline import Kind
from redline.trace.reader import HARMLESS, read_file
from tests.support.damage.corpus import READS, Case, corpus, seed_trace
from tests.support.real_traces import RealTraces

CASES = list(corpus(seed_trace()))
REAL_SEED = "h20_single.json.gz"


@dataclass(frozen=True)
class Facts:
    """What reading a file gave, in numbers that can be compared with another reading."""

    spans: int
    kernels: int
    kernel_ns: int
    reasons: dict[Reason, int]


def _facts(path: Path) -> Facts:
    spans = kernels = kernel_ns = 0
    timelines = read_file(path).timelines
    for timeline in timelines:
        timeline.self_check()
        rows = timeline.spans.rows_of(Kind.KERNEL, Kind.COMMUNICATION)
        spans += len(timeline.spans)
        kernels += len(rows)
        kernel_ns += int(timeline.spans.dur_ns[rows].sum())
    return Facts(spans, kernels, kernel_ns, {one.reason: one.count for one in timelines[0].source.problems})


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    path = tmp_path_factory.mktemp("seed") / "rank-0.pt.trace.json"
    path.write_bytes(seed_trace())
    return _facts(path)


def _written(case: Case, folder: Path) -> Path:
    path = folder / case.file_name
    path.write_bytes(case.data)
    return path


def test_the_seed_itself_is_sound(clean: Facts) -> None:
    assert clean.reasons == {}
    assert clean.kernels == 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_damage_costs_at_most_its_own_event_and_strict_refuses_it(
    case: Case, clean: Facts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written(case, tmp_path)
    harmless = case.expected.outcome == READS and not (set(case.expected.reasons) - HARMLESS)
    code = main(["inspect", str(path), "--strict", "--quiet"])
    assert code == (0 if harmless else 2), capsys.readouterr().err
    if case.expected.outcome == READS:
        _compare(_facts(path), clean, case)
        return
    with pytest.raises(getattr(errors, case.expected.error)) as refusal:
        read_file(path)
    assert case.expected.message_has.lower() in str(refusal.value).lower()
    assert str(path) in str(refusal.value)


def _compare(found: Facts, clean: Facts, case: Case) -> None:
    expected = case.expected
    added = {reason: count - clean.reasons.get(reason, 0) for reason, count in found.reasons.items()}
    added = {reason: count for reason, count in added.items() if count}
    assert set(added) == set(expected.reasons)
    assert {reason: added[reason] for reason in expected.counts} == dict(expected.counts)
    assert clean.spans - found.spans == expected.lost_timed_events
    if expected.same_kernels:
        longer_ns = int(expected.kernel_time_added_us * 1000)
        assert (found.kernels, found.kernel_ns) == (clean.kernels, clean.kernel_ns + longer_ns)


@pytest.mark.needs_traces
def test_damage_in_a_real_trace(traces: RealTraces, tmp_path: Path) -> None:
    """The same corpus made from a real trace of 40,828 events, a sample of it here, all of it when slow tests run."""
    seed = traces / REAL_SEED
    clean = _facts(seed)
    for case in _real_corpus(seed, every=24):
        path = _written(case, tmp_path)
        if case.expected.outcome == READS:
            _compare(_facts(path), clean, case)
        else:
            with pytest.raises(errors.InputError):
                read_file(path)
        path.unlink()


@pytest.mark.slow
@pytest.mark.needs_traces
def test_damage_in_a_real_trace_costs_no_more_than_twice_the_time(traces: RealTraces, tmp_path: Path) -> None:
    seed = traces / REAL_SEED
    clean = tmp_path / "clean.json"
    clean.write_bytes(gzip.decompress(seed.read_bytes()))
    for case in _real_corpus(seed):
        path = _written(case, tmp_path)
        ratios = [_cpu_s(path) / _cpu_s(clean) for _ in range(5)]
        assert np.median(ratios) <= 2, f"{case.id}: {ratios}"


def _cpu_s(path: Path) -> float:
    begin = time.process_time()
    with suppress(errors.InputError):
        read_file(path)
    return time.process_time() - begin


def _real_corpus(seed: Path, every: int = 1) -> Iterator[Case]:
    yield from corpus(gzip.decompress(seed.read_bytes()), every)
