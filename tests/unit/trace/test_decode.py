"""Events from text: times exact to the nanosecond, and damage that costs no more than its own event."""

import json
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.timeline.problems import ProblemLog, Reason
from redline.trace import document as document_module
from redline.trace.decode import decoded_batches
from redline.trace.document import TraceDocument
from redline.trace.inflate import TraceContent
from redline.trace.schema import AnyEvent
from redline.trace.times import NO_TIME
from tests.support.events import document, kernel, ledger_of, names_of, op, read_one

BASES_US = (0, 3_852_162_000_000, 8_795_000_000_000, 1_790_857_026_000_000)
"""Microseconds since the start, since Kineto's base time, near the limit of doubles, and since 1970."""


class _Whole:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int, /) -> bytes:
        piece, self._data = self._data[:size], self._data[size:]
        return piece


def decoded(events: bytes) -> tuple[list[AnyEvent], list[int], list[int], dict[Reason, int]]:
    """Events, starts, durations and problems of a trace with this text between its brackets."""
    log = ProblemLog()
    text = b'{"traceEvents": [' + events + b"]}"
    batches = list(decoded_batches(TraceDocument(TraceContent(name="t", member="", stream=_Whole(text), log=log))))
    return (
        [event for batch in batches for event in batch.events],
        [start for batch in batches for start in batch.start_ns.tolist()],
        [duration for batch in batches for duration in batch.dur_ns.tolist()],
        {problem.reason: problem.count for problem in log.freeze()},
    )


def timed(ts: str, dur: str = "1") -> bytes:
    return b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": %s, "dur": %s}' % (
        ts.encode(),
        dur.encode(),
    )


def as_us(time_ns: int) -> str:
    return f"{time_ns // 1000}.{time_ns % 1000:03}"


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base_us", BASES_US)
def test_every_nanosecond_of_a_microsecond_is_exact(base_us: int) -> None:
    times_ns = [(base_us + number) * 1000 + number for number in range(1000)]
    _, starts, durations, problems = decoded(b",".join(timed(as_us(one), as_us(one % 10**9)) for one in times_ns))
    assert starts == times_ns
    assert durations == [one % 10**9 for one in times_ns]
    assert problems == {}


@pytest.mark.parametrize("base_us", [8_800_000_000_000, 9_007_000_000_000])
def test_every_nanosecond_is_exact_where_doubles_begin_to_fail(base_us: int) -> None:
    times_ns = [(base_us + number) * 1000 + number for number in range(1000)]
    assert decoded(b",".join(timed(as_us(one)) for one in times_ns))[1] == times_ns


@given(st.lists(st.integers(0, 2**43 * 1000), min_size=1, max_size=20))
def test_any_time_written_with_three_decimals_is_exact(times_ns: list[int]) -> None:
    assert decoded(b",".join(timed(as_us(one)) for one in times_ns))[1] == times_ns


@given(st.lists(st.decimals("0", "8e12", places=5), min_size=1, max_size=20))
def test_finer_times_are_rounded_to_a_nanosecond_beside_them(times_us: list[Decimal]) -> None:
    _, starts, _, _ = decoded(b",".join(timed(str(one)) for one in times_us))
    for start, written in zip(starts, times_us, strict=True):
        assert abs(start - Fraction(written) * 1000) < 1


def test_one_stamp_that_needs_it_makes_its_whole_batch_exact() -> None:
    times_ns = [1_790_857_026_000_000_789, 1_790_857_026_000_001_000, 1_790_857_026_000_001_012, 5]
    assert decoded(b",".join(timed(as_us(one)) for one in times_ns))[1] == times_ns


def test_a_small_fraction_of_a_large_stamp_is_not_lost() -> None:
    times_ns = [1_790_857_026_000_000_123, 1_790_857_026_000_001_001, 1_790_857_026_000_002_000]
    assert decoded(b",".join(timed(as_us(one)) for one in times_ns))[1] == times_ns


def test_whole_microseconds_beyond_the_doubles_stay_exact() -> None:
    assert decoded(timed(str(2**53 // 1000 + 1)))[1] == [(2**53 // 1000 + 1) * 1000]


@pytest.mark.parametrize("base_us", BASES_US)
def test_times_written_as_strings_are_exact(base_us: int) -> None:
    times_ns = [(base_us + number) * 1000 + number for number in range(50)]
    _, starts, durations, problems = decoded(b",".join(timed(f'"{as_us(one)}"', '"1.5"') for one in times_ns))
    assert (starts, durations) == (times_ns, [1500] * 50)
    assert set(problems) == {Reason.NUMBER_AS_STRING}


@pytest.mark.parametrize("count", [1, 50])
def test_times_written_as_strings_are_all_counted(count: int) -> None:
    text = b",".join(timed(f'"{number}"') for number in range(count))
    assert decoded(text)[3] == {Reason.NUMBER_AS_STRING: count}


def test_an_end_is_the_sum_of_whole_nanoseconds(tmp_path: Path) -> None:
    events = [op("a", 0.1, 0.2), op("b", 0.3, 0.1)]  # 0.1 + 0.2 > 0.3 in doubles
    spans = read_one(document(events), tmp_path).spans
    assert (spans.end_ns[0] == spans.start_ns[1], spans.dur_ns.tolist()) == (True, [200, 100])


@pytest.mark.parametrize("number", ["null", '""', '"soon"', "[]", "true", '"nan"', "1e30", '"1e400"'])
def test_a_time_that_is_none_is_missing(number: str) -> None:
    _, starts, _, _ = decoded(b",".join([timed("1"), timed(number), timed("3")]))
    assert starts[0] == 1000
    assert starts[2] == 3000
    assert starts[1] == NO_TIME or abs(starts[1]) > 10**17  # missing, or far outside of any trace


@pytest.mark.parametrize("number", ["1e99999999999999999999", "-1e99999999999999999999"])
def test_a_time_with_an_absurd_exponent_is_missing(number: str) -> None:
    _, starts, _, _ = decoded(b",".join([timed("1"), timed(number), timed("3")]))
    assert (starts[0], starts[2]) == (1000, 3000)


def test_a_time_that_cannot_be_is_said() -> None:
    text = b",".join([timed('"1"'), timed("1e30"), timed("2")])
    assert decoded(text)[3] == {Reason.NUMBER_AS_STRING: 1, Reason.BAD_FIELD: 1}


# --- repeated keys ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "first", "second", "kept"),
    [
        ("name", '"real"', '"injected"', "real"),
        ("cat", '"cpu_op"', '"kernel"', "cpu_op"),
        ("ph", '"X"', '"M"', "X"),
        ("tid", "1", "2", 2),
        ("pid", "1", "2", 2),
    ],
)
def test_of_a_repeated_key_the_profilers_own_value_counts(key: str, first: str, second: str, kept: object) -> None:
    rest = ', "cat": "cpu_op", "dur": 1, "dur": 1, "ts": 5'  # a second dur makes the reader look closely
    text = f'{{"ph": "X", "{key}": {first}, "{key}": {second}, "name": "real"{rest}}}'
    if key in ("ph", "name"):
        text = f'{{"{key}": {first}, "{key}": {second}, "ph": "X", "name": "real"{rest}}}'
    ((event,), _, _, problems) = decoded(text.encode())
    assert getattr(event, key) == kept
    assert problems == {Reason.DUPLICATE_KEY: 1}


def test_a_name_that_brings_its_own_category_makes_no_kernel(tmp_path: Path) -> None:
    honest = json.dumps(op("x", 0, 5))
    injected = honest.replace('"x"', '"x", "cat": "kernel", "dur": 99')
    spans = read_one(b'{"traceEvents": [' + injected.encode() + b"]}", tmp_path)
    assert spans.source.events == {"cpu_op": 1}
    assert ledger_of(spans)[Reason.DUPLICATE_KEY] == 1


def test_the_word_cat_or_dur_in_the_arguments_is_no_repeated_key() -> None:
    events = [{**op("a", 0, 5), "args": {"cat": "kernel", "dur": 99}}, op("b", 10, 5)]
    found, starts, durations, problems = decoded(json.dumps(events)[1:-1].encode())
    assert [event.cat for event in found] == ["cpu_op", "cpu_op"]
    assert (starts, durations, problems) == ([0, 10_000], [5000, 5000], {})


# --- events that look like several, or are too large ------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 9])
def test_a_list_of_objects_inside_the_arguments_is_not_events(count: int) -> None:
    nested = [{"name": f"inner {number}", "ph": "X"} for number in range(count)]
    events = [op("before", 0, 5), op("outer", 10, 5, what=nested), op("after", 20, 5)]
    found, _, _, problems = decoded(json.dumps(events)[1:-1].encode())
    assert ([event.name for event in found], problems) == (["before", "outer", "after"], {})


def test_an_event_larger_than_a_batch() -> None:
    events = [op("a", 0, 5), op("large", 10, 5, stack="x" * 3_000_000), op("b", 20, 5)]
    found, starts, _, problems = decoded(json.dumps(events)[1:-1].encode())
    assert [event.name for event in found] == ["a", "large", "b"]
    assert (starts, problems) == ([0, 10_000, 20_000], {})


def test_an_event_without_end_costs_itself_and_little_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_module, "EVENT_LIMIT_BYTES", 2 << 20)
    good = json.dumps([op(f"op {number}", number, 1) for number in range(100)])[1:-1].encode()
    endless = b'{"ph": "X", "name": "' + b"x" * 5_000_000
    found, _, _, problems = decoded(good + b", " + endless)
    assert [event.name for event in found] == [f"op {number}" for number in range(100)]
    assert set(problems) <= {Reason.CUT_EVENT, Reason.UNREADABLE_EVENT, Reason.TRUNCATED_FILE}
    assert problems


# --- damage stays where it is -----------------------------------------------------------------------------------------

DAMAGE: list[tuple[bytes, bytes, Reason]] = [
    (b'"dur": 5', b'"dur": inf', Reason.NOT_A_NUMBER),
    (b'"dur": 5', b'"dur": N/A', Reason.NOT_A_NUMBER),
    (b'"victim"', b'"C:\\path"', Reason.LONE_BACKSLASH),
    (b'"victim"', b'"vic\ntim"', Reason.CONTROL_CHARACTER),
    (b'"victim"', b'"vic\xfftim"', Reason.INVALID_UTF8),
    (b'"victim"', b'"vic"tim"', Reason.UNESCAPED_QUOTE),
    (b'"tid"', b'tid"', Reason.MISSING_QUOTE),
    (b'"pid": 100', b'"pid": [1]', Reason.BAD_FIELD),
    (b'"args": {}', b'"args": 5', Reason.BAD_FIELD),
    (b'"ts": 1', b'"ts": @@@1', Reason.UNREADABLE_EVENT),
]


@pytest.mark.parametrize(("sound", "broken", "reason"), DAMAGE)
@pytest.mark.parametrize("copies", [1, 400])
def test_damage_costs_at_most_its_own_event(sound: bytes, broken: bytes, reason: Reason, copies: int) -> None:
    around = json.dumps([op(f"op {number}", number, 1) for number in range(50)])[1:-1].encode()
    victim = json.dumps(op("victim", 1, 5)).encode()
    assert sound in victim
    text = b", ".join([around, *[victim.replace(sound, broken)] * copies, around])
    found, _, _, problems = decoded(text)
    kept = [event.name for event in found if event.name.startswith("op ")]
    assert kept == [f"op {number}" for number in range(50)] * 2
    assert problems.pop(reason) == copies
    assert set(problems) <= {Reason.BAD_FIELD}


@pytest.mark.parametrize("entry", ["5", '"text"', "null", "[1, 2]", "true"])
def test_entries_that_are_no_events_are_dropped_and_counted(entry: str) -> None:
    text = b", ".join([timed("1"), entry.encode(), timed("2"), entry.encode()])
    found, starts, _, problems = decoded(text)
    assert (len(found), starts) == (2, [1000, 2000])
    assert problems == {Reason.NOT_AN_EVENT: 2}


def test_many_entries_that_are_no_events_take_time_in_proportion() -> None:
    def cost_s(count: int) -> float:
        began = time.process_time()
        decoded(b"1," * count + timed("1"))
        return time.process_time() - began

    assert cost_s(160_000) < 4 * 32 * cost_s(5_000)  # in proportion to the square it would be 1024 times


def test_an_empty_list_with_commas_is_nothing() -> None:
    assert decoded(b" , , ")[0] == []


def test_a_comma_after_the_last_event_is_harmless() -> None:
    found, _, _, problems = decoded(timed("1") + b", ")
    assert (len(found), problems) == (1, {})


@pytest.mark.parametrize("depth", [100, 100_000])
def test_deep_nesting_costs_at_most_its_own_event(depth: int) -> None:
    deep = timed("2").replace(b'"a"', b'"deep", "args": {"x": ' + b"[" * depth + b"]" * depth + b"}")
    found, _, _, _ = decoded(b", ".join([timed("1"), deep, timed("3")]))
    assert [event.name for event in found if event.name == "a"] == ["a", "a"]


def test_numbers_of_thousands_of_digits_cost_at_most_their_own_field() -> None:
    huge = timed("2").replace(b'"tid": 1', b'"tid": ' + b"9" * 5000)
    found, starts, _, _ = decoded(b", ".join([timed("1"), huge, timed("3")]))
    assert (len(found), starts) == (3, [1000, 2000, 3000])


def test_events_of_every_phase_are_given() -> None:
    events: list[dict[str, Any]] = [{"ph": phase, "name": "n", "ts": 1} for phase in "XBEMisfCtbn"]
    found, _, _, _ = decoded(json.dumps(events)[1:-1].encode())
    assert "".join(event.ph for event in found) == "XBEMisfCtbn"


def test_fields_of_the_wrong_type_are_missing_and_the_rest_is_kept(tmp_path: Path) -> None:
    events = [
        {**op("a", 0, 5), "args": {"External id": "three"}},
        kernel("k", 10, 5, args={"correlation": {"x": 1}, "grid": 7}),
        op("b", 20, 5),
    ]
    timeline = read_one(document(events), tmp_path)
    assert names_of(timeline) == ["a", "k", "b"]
    assert ledger_of(timeline)[Reason.BAD_FIELD] == 2
    assert timeline.device_work.correlation.tolist() == [-1]
