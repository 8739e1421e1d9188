"""Traces without sense: whatever the times and kinds, there is a report in every form, and the ledger adds up."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redline.cli.diagnose import TABLES
from redline.job.read_files import JobOptions
from redline.report.diagnose import json as as_json
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.raw_tables import COLUMNS, csv_of
from redline.verbs.diagnose import diagnose
from tests.support.events import Event, collective, document, kernel, launch, op, region, span

BACKWARD = "autograd::engine::evaluate_function: MmBackward0"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
MAKERS: dict[str, Callable[[float, float, int], Event]] = {
    "operator": lambda ts, dur, number: op("aten::mm", ts, dur, **{"Sequence number": number}),
    "backward": lambda ts, dur, number: op(BACKWARD, ts, dur, **{"Sequence number": number, "Fwd thread id": 1}),
    "backward thread": lambda ts, dur, number: op(BACKWARD, ts, dur, tid=2, **{"Fwd thread id": 1}),
    "step": lambda ts, dur, number: region(f"ProfilerStep#{number}", ts, dur),
    "optimizer": lambda ts, dur, number: region("Optimizer.step#SGD.step", ts, dur),
    "loader": lambda ts, dur, number: region(LOADER, ts, dur),
    "launch": lambda ts, dur, number: launch(ts, number, dur=dur),
    "sync": lambda ts, dur, number: launch(ts, 0, dur=dur, name="cudaDeviceSynchronize"),
    "kernel": lambda ts, dur, number: kernel("gemm", ts, dur, correlation=number),
    "copy": lambda ts, dur, number: kernel("Memcpy HtoD", ts, dur, correlation=number, category="gpu_memcpy"),
    "collective": lambda ts, dur, number: collective(ts, dur, elements=number),
    "send": lambda ts, dur, number: collective(ts, dur, name="send", args={"Dst Rank": 1}),
    "python": lambda ts, dur, number: span("python_function", "train.py(3): step", ts, dur),
    "unknown": lambda ts, dur, number: span("something new", "x", ts, dur),
}
HUGE_US = 9e15  # beyond what nanoseconds in 64 bits hold
ZERO = st.just(0.0)
TIMES = st.one_of(
    st.integers(0, 40).map(float),
    st.sampled_from([0.0, 0.001, -5.0, 1e9, 1.7e15, HUGE_US]),
)


def events_of(
    kinds: list[str], ts: st.SearchStrategy[float] = TIMES, dur: st.SearchStrategy[float] = TIMES, most: int = 14
) -> st.SearchStrategy[list[Event]]:
    made = st.tuples(st.sampled_from(kinds), ts, dur, st.integers(0, 3))
    return st.lists(made.map(lambda one: MAKERS[one[0]](*one[1:])), max_size=most)


ALL = list(MAKERS)
CASES: dict[str, st.SearchStrategy[list[Event]]] = {
    "anything": events_of(ALL),
    "all durations zero": events_of(ALL, dur=ZERO),
    "all starts equal": events_of(ALL, ts=st.just(7.0)),
    "starts equal and durations zero": events_of(ALL, ts=ZERO, dur=ZERO),
    "one event": events_of(ALL, most=1),
    "only communication": events_of(["collective", "send"]),
    "only annotations": events_of(["step", "optimizer", "loader"]),
    "only the host": events_of(["operator", "backward", "launch", "sync", "python"]),
    "no steps": events_of([kind for kind in ALL if kind not in ("step", "optimizer", "loader")]),
    "steps without work": events_of(["step", "unknown"], dur=st.sampled_from([0.0, 3.0])),
}


def diagnosed(*ranks: list[Event], draw_step: bool = False) -> DiagnoseResult:
    with TemporaryDirectory() as folder:
        for rank, events in enumerate(ranks):
            data = document(events, rank=rank, world_size=len(ranks))
            (Path(folder) / f"rank-{rank}.json").write_bytes(data)
        found = diagnose([folder], options=JobOptions(jobs=1, use_cache=False), draw_step=draw_step)
    assert found.failures == ()  # a bug would stand here
    return found


def check(found: DiagnoseResult) -> None:
    """The accounts of every step add up to its length, and every short form of the report can be made."""
    for rank in found.diagnosis.ranks:
        ledger = rank.ledger
        assert ledger.steps.sum(axis=1).tolist() == (ledger.end_ns - ledger.start_ns).tolist()
        assert int(ledger.total.sum()) == ledger.window_ns
    assert found.rendered("text", tables=list(TABLES), verbose=True)
    assert found.rendered("md", tables=list(TABLES), verbose=True)
    assert json.loads(as_json.render(found), parse_constant=pytest.fail)["failures"] == []
    for name in COLUMNS:
        csv_of(name, found)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_there_is_a_report_whatever_the_trace_holds(case: str, data: st.DataObject) -> None:
    ranks = data.draw(st.lists(CASES[case], min_size=1, max_size=2))
    check(diagnosed(*ranks))


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(CASES)).flatmap(CASES.__getitem__))
def test_there_is_a_page_whatever_the_trace_holds(events: list[Event]) -> None:
    found = diagnosed(events, draw_step=True)
    assert found.rendered("html")
