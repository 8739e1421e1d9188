"""Whatever the bytes, the reader answers or refuses, soon; what it drops it counts, and damage stays where it is."""

import gzip
import json
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.errors import NotATraceError
from redline.timeline.problems import Effect, Reason
from redline.timeline.timeline import Timeline
from redline.trace.reader import read_file
from tests.support.fuzzing import runner
from tests.support.fuzzing import traces as trace_fuzzing
from tests.support.fuzzing.mutate import Mutant
from tests.support.fuzzing.records import CONFIG, DIGEST, PROFILE, RUN
from tests.support.fuzzing.runner import Kind, Tally
from tests.support.fuzzing.traces import TRACE, check_timeline, own_seeds, real_seeds, unpacked
from tests.support.real_traces import RealTraces

SEED = 20_000
INPUTS = 240  # and `python -m scripts.sweep input` tries thousands
UNFIXED: frozenset[str] = frozenset()
"""Failures that are known and wait for their fix; each is an xfail in test_fuzz_regressions."""


OWN = replace(TRACE, seeds=cache(own_seeds))  # the same wherever the real traces are not


def assert_promise_kept(tally: Tally) -> None:
    broken = {key: failures[0] for key, failures in tally.failures.items() if key not in UNFIXED}
    told = [f"{key}: input {one.index} {one.input.how}\n{one.input.data!r:.2000}\n" for key, one in broken.items()]
    assert not broken, "\n".join(told)


# mutants of real traces


def test_no_mutant_of_a_trace_breaks_the_reader(tmp_path: Path) -> None:
    tally = runner.run_share(OWN, SEED, range(INPUTS), tmp_path)
    assert_promise_kept(tally)
    assert tally.inputs == INPUTS
    assert tally.outcomes["read"] > INPUTS / 2  # mutants that nothing can be read of would prove little
    assert len(tally.reasons) > 20


@pytest.mark.needs_traces
def test_no_mutant_of_a_trace_of_a_real_gpu_breaks_the_reader(traces: RealTraces, tmp_path: Path) -> None:
    assert (traces / "h20_single.json.gz").is_file()  # one of the seeds; without it, this is skipped
    seeds = real_seeds()
    assert len(seeds) > 10
    assert_promise_kept(runner.run_share(replace(TRACE, seeds=lambda: seeds), SEED, range(100), tmp_path))


# mutants of what we read back


@pytest.mark.parametrize(
    ("kind", "indices"),
    [(DIGEST, range(100)), (PROFILE, range(100)), (CONFIG, range(100)), (RUN, range(60))],
    ids=lambda value: getattr(value, "name", ""),
)
def test_no_mutant_of_a_record_breaks_a_verb(
    kind: Kind, indices: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDLINE_LANG", "en")
    tally = runner.run_share(kind, SEED, indices, tmp_path)
    assert_promise_kept(tally)
    assert tally.inputs == len(indices)
    assert min(tally.outcomes["read"], tally.outcomes["refused"]) > len(indices) / 8


# documents from nothing, where it is known how many events there are

ODD_NUMBERS: st.SearchStrategy[object] = st.sampled_from(
    [-1, -1.5, 0, 1e-3, 1e12, 1e17, 1e30, -1e17, 2**63, None, "7.25", "x", True, [], {}]
)
TIMES = st.integers(0, 10**9).map(lambda ns: ns / 1000)
CATEGORIES = st.sampled_from(["cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "Trace", "odd", ""])
IDS = st.sampled_from([0, 1, 7, "Spans", -3, 2**70])
ARGS = st.dictionaries(
    st.sampled_from(["correlation", "External id", "stream", "device", "Input Dims", "Collective name", "odd"]),
    st.one_of(st.integers(0, 3), ODD_NUMBERS, st.text(max_size=3)),
    max_size=3,
)
SPANS = st.fixed_dictionaries(
    {
        "ph": st.just("X"),
        "name": st.sampled_from(["a", "b", "ProfilerStep#1", "ncclKernel_AllReduce", "\u4e2d"]),
        "cat": CATEGORIES,
        "pid": IDS,
        "tid": IDS,
        "ts": st.one_of(TIMES, TIMES, TIMES, ODD_NUMBERS),
        "dur": st.one_of(TIMES, TIMES, TIMES, ODD_NUMBERS),
    },
    optional={"args": st.one_of(ARGS, ODD_NUMBERS)},
)
NO_SPANS: st.SearchStrategy[object] = st.one_of(
    st.just({}), st.none(), st.integers(), st.text(max_size=5), SPANS.map(lambda event: [event])
)


def read(data: bytes, folder: Path) -> tuple[Timeline, ...]:
    path = folder / "rank-0.json"
    path.write_bytes(data)
    timelines = read_file(path).timelines
    for timeline in timelines:
        check_timeline(timeline)
    return timelines


@given(st.lists(st.one_of(SPANS, SPANS, SPANS, NO_SPANS), max_size=12))
def test_every_event_is_a_span_or_counted_as_dropped(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("events")
    data = json.dumps({"traceEvents": events}).encode()
    if events and isinstance(events[0], list):
        with pytest.raises(NotATraceError):  # a list of lists is something else than a trace
            read(data, folder)
        return
    timelines = read(data, folder)
    # What may be work of an unknown device stays a span, and is dropped from the accounts only.
    dropped = [
        problem.count
        for problem in timelines[0].source.problems
        if problem.reason.effect == Effect.DROPPED and problem.reason is not Reason.UNKNOWN_DEVICE
    ]
    assert sum(len(timeline.spans) for timeline in timelines) + sum(dropped) == len(events)


WRONG_BYTES = st.sampled_from([b"", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\xff", b"\n", b"7", b"x"])


@given(st.integers(0, 9), st.floats(0, 1), WRONG_BYTES, st.integers(0, 1))
def test_one_wrong_byte_costs_its_own_event_and_at_most_the_next(
    tmp_path_factory: pytest.TempPathFactory, victim: int, place: float, wrong: bytes, replaced: int
) -> None:
    form = b'{"ph": "X", "cat": "cpu_op", "name": "op%d", "pid": 1, "tid": 1, "ts": %d.5, "dur": 2, "args": {"x": [1]}}'
    events = [form % (number, 10 * number) for number in range(10)]
    text = events[victim]
    at = 1 + int(place * (len(text) - 2))
    events[victim] = text[:at] + wrong + text[at + replaced :]
    timelines = read(b'{"traceEvents": [' + b", ".join(events) + b"]}", tmp_path_factory.mktemp("events"))
    found = {timeline.texts[name] for timeline in timelines for name in timeline.spans.name.tolist()}
    assert {f"op{number}" for number in range(10)} - found <= {f"op{victim}", f"op{victim + 1}"}


# the harness itself


def crashing(_: Path) -> None:
    raise ZeroDivisionError


def hanging(_: Path) -> None:
    while True:
        time.sleep(0.001)


def test_a_crash_is_a_failure_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_fuzzing, "read_file", crashing)
    outcome, _, failure = runner.examine(OWN, Mutant(name="a", data=b"x", how=()), tmp_path)
    assert outcome == "failed"
    assert failure is not None
    assert failure.key.startswith("ZeroDivisionError")


def test_a_hang_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_fuzzing, "read_file", hanging)
    monkeypatch.setattr(runner, "DEADLINE_S", 0.05)
    _, _, failure = runner.examine(OWN, Mutant(name="a", data=b"x", how=()), tmp_path)
    assert failure is not None
    assert failure.key.startswith("DeadlineError")


def test_a_failure_is_made_as_small_as_it_gets() -> None:
    whole = Mutant(name="a", data=bytes(range(256)) * 20, how=())
    small = runner.minimised(whole, lambda made: b"\x07" in made.data and b"\xf0" in made.data)
    assert sorted(small.data) == [0x07, 0xF0]


def test_packed_inputs_are_unpacked() -> None:
    made = Mutant(name="a.gz", data=gzip.compress(gzip.compress(b"{}")), how=())
    assert list(unpacked(made)) == [b"{}"]


def test_tallies_add_up(tmp_path: Path) -> None:
    whole = runner.run_share(OWN, 1, range(40), tmp_path)
    halves = Tally()
    for part in (range(20), range(20, 40)):
        halves.add(runner.run_share(OWN, 1, part, tmp_path))
    assert (halves.inputs, halves.outcomes, halves.reasons) == (whole.inputs, whole.outcomes, whole.reasons)
