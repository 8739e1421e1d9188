"""The shape of a trace document: metadata on either side of the events, events whole in whatever pieces they arrive."""

import codecs
import json
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redline.errors import NotATraceError, RefusedInputError
from redline.timeline.problems import ProblemLog, Reason
from redline.trace import document as document_module
from redline.trace.decode import decoded_batches
from redline.trace.document import TraceDocument
from redline.trace.inflate import TraceContent
from tests.support.events import Event, document, op


class Dribble:
    """A stream whose reads are short: some bytes at a time, of sizes that follow from a seed."""

    def __init__(self, data: bytes, most: int, seed: int = 0) -> None:
        self._data, self._most, self._random = data, most, random.Random(seed)

    def read(self, size: int, /) -> bytes:
        count = min(size, self._random.randint(1, self._most))
        piece, self._data = self._data[:count], self._data[count:]
        return piece


class Read:
    """A document read to its end."""

    def __init__(self, data: bytes, most: int = 1 << 30, seed: int = 0) -> None:
        self.log = ProblemLog()
        self.document = TraceDocument(
            TraceContent(name="t.json", member="", stream=Dribble(data, most, seed), log=self.log)
        )
        self.events = [
            (event.ph, event.cat, event.name, start, duration)
            for batch in decoded_batches(self.document)
            for event, start, duration in zip(batch.events, batch.start_ns.tolist(), batch.dur_ns.tolist(), strict=True)
        ]
        self.metadata = self.document.metadata()

    @property
    def names(self) -> list[str]:
        return [name for _, _, name, _, _ in self.events]

    @property
    def reasons(self) -> set[Reason]:
        return {problem.reason for problem in self.log.freeze()}


def ops(*names: str) -> list[Event]:
    return [op(name, 10 * number, 5) for number, name in enumerate(names)]


def plain(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


# --- pieces -----------------------------------------------------------------------------------------------------------

NESTED = [{"name": "not an event"}, {"ph": "X"}, {}, {"ts": 5}]
TAME_NAMES = st.sampled_from(["aten::mm", "void f<(int)1>(T)", "]", "}]}", '"', "\\", "käse", "中文", "", "a, b"])
WILD_NAMES = TAME_NAMES | st.sampled_from(["f({}, {})", '}, {"ph":', "},{}", '"}, {"name": "x"'])
TAIL = st.fixed_dictionaries(
    {
        "deviceProperties": st.integers(0, 5).map(lambda count: [{"id": one, "name": "GPU"} for one in range(count)]),
        "traceName": st.sampled_from(["/tmp/a.json", "]}", '"traceEvents": [']),
    }
)


def described(name: str, number: int, nested: bool) -> Event:
    event = op(name, number + 0.001 * number, 5)
    return {**event, "args": {"what": NESTED}} if nested else event


def layout(names: list[str], head: bool, tail: dict[str, object], nested: int | None) -> bytes:
    """A trace with its metadata before or after the events; one event may hold what looks like events."""
    events = [described(name, number, number == nested) for number, name in enumerate(names)]
    info = {"distributedInfo": {"rank": 3}}
    return plain({**(info if head else {}), "traceEvents": events, **tail, **({} if head else info)})


def expected_events(data: bytes) -> list[tuple[str, str, str, int, int]]:
    return [
        (event["ph"], event["cat"], event["name"], round(event["ts"] * 1000), round(event["dur"] * 1000))
        for event in json.loads(data)["traceEvents"]
    ]


def assert_read_alike_in_any_pieces(data: bytes, most: int, seed: int) -> None:
    read = Read(data, most, seed)
    assert read.events == expected_events(data)
    assert read.metadata == {key: value for key, value in json.loads(data).items() if key != "traceEvents"}
    assert read.reasons == set()


@given(st.lists(TAME_NAMES, min_size=1, max_size=8), st.booleans(), st.integers(1, 80), st.integers(0, 2**32))
def test_events_are_the_same_in_whatever_pieces_they_arrive(names: list[str], head: bool, most: int, seed: int) -> None:
    assert_read_alike_in_any_pieces(layout(names, head, {}, None), most, seed)


@given(
    st.lists(WILD_NAMES, min_size=1, max_size=8),
    st.booleans(),
    TAIL,
    st.integers(0, 7) | st.none(),
    st.integers(1, 80),
    st.integers(0, 2**32),
)
@example(["a", "f({}, {})"], True, {}, None, 80, 0)
@example(["a", "b"], False, {"deviceProperties": [{"id": one} for one in range(5)]}, None, 80, 0)
@example(["a", "b"], True, {}, 1, 80, 0)
def test_the_same_with_what_looks_like_an_event_inside_names_arguments_and_metadata(
    names: list[str], head: bool, tail: dict[str, object], nested: int | None, most: int, seed: int
) -> None:
    assert_read_alike_in_any_pieces(layout(names, head, tail, nested), most, seed)


@pytest.mark.parametrize("name", ["f({}, {})", '}, {"ph":', "]", "}]}"])
def test_a_name_that_looks_like_the_end_of_an_event(name: str) -> None:
    read = Read(document(ops("first", name, "last")))
    assert (read.names, read.reasons) == (["first", name, "last"], set())


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(op("f({}, {})", 50, 5), id="name"),
        pytest.param(op("f", 50, 5, what=NESTED), id="arguments"),
    ],
)
def test_the_last_event_may_look_like_several(last: Event) -> None:
    read = Read(document([*ops("first", "second"), last]))
    assert (read.names, read.reasons) == (["first", "second", last["name"]], set())


def test_more_events_than_a_piece_of_the_file() -> None:
    events = [op(f"name of event {number}", number, 1) for number in range(30_000)]
    data = document(events)
    assert len(data) > 3_000_000
    read = Read(data)
    assert read.names == [event["name"] for event in events]
    assert read.reasons == set()


def test_batches_hold_whole_events_and_say_where_they_are() -> None:
    data = document([op(f"op {number}", number, 1) for number in range(40_000)])
    read = TraceDocument(TraceContent(name="t", member="", stream=Dribble(data, 1 << 30), log=ProblemLog()))
    batches = list(read.batches())
    assert len(batches) > 3
    assert [batch.last for batch in batches] == [False] * (len(batches) - 1) + [True]
    for batch in batches:
        assert data[batch.offset :].startswith(batch.text)
        assert batch.text.startswith(b"{")


# --- metadata ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["before", "after", "around"])
def test_metadata_may_stand_on_either_side_of_the_events(place: str) -> None:
    first, second = {"distributedInfo": {"rank": 3}}, {"traceName": "x", "baseTimeNanoseconds": 5}
    events = {"traceEvents": ops("a", "b")}
    order: dict[str, list[dict[str, Any]]] = {
        "before": [first, second, events],
        "after": [events, first, second],
        "around": [first, events, second],
    }
    joined = {key: value for part in order[place] for key, value in part.items()}
    read = Read(plain(joined))
    assert (read.metadata, read.names, read.reasons) == ({**first, **second}, ["a", "b"], set())


def test_an_indented_document_is_the_same() -> None:
    data = json.dumps(json.loads(document(ops("a", "b"), traceName="x")), indent=4).encode()
    assert (Read(data).names, Read(data).metadata) == (
        ["a", "b"],
        Read(document(ops("a", "b"), traceName="x")).metadata,
    )


def test_a_long_tail_with_a_list_of_devices_is_read_whole() -> None:
    tail = {
        "deviceProperties": [{"id": number, "name": "GPU"} for number in range(8)],
        "note": "x" * 2_500_000,
        "distributedInfo": {"rank": 5},
    }
    read = Read(plain({"traceEvents": ops("a", "b"), **tail}))
    assert read.reasons == set()
    assert read.metadata == tail


def test_the_offset_at_the_end_is_the_size_of_the_document() -> None:
    tail = {"deviceProperties": [{"id": 0}, {"id": 1}], "note": "x" * 2_500_000}
    data = plain({"traceEvents": ops("a", "b"), **tail})
    assert Read(data).document.offset == len(data)


def test_a_huge_head_is_read() -> None:
    read = Read(plain({"note": "x" * 6_000_000, "distributedInfo": {"rank": 5}, "traceEvents": ops("a")}))
    assert (read.names, read.metadata["distributedInfo"], read.reasons) == (["a"], {"rank": 5}, set())


def test_a_head_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_module, "HEAD_LIMIT_BYTES", 5_000_000)
    with pytest.raises(NotATraceError, match="it has no traceEvents"):
        Read(plain({"note": "x" * 8_000_000, "traceEvents": ops("a")}))


def test_a_tail_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_module, "TAIL_LIMIT_BYTES", 1_000_000)
    data = plain({"traceEvents": ops("a"), "distributedInfo": {"rank": 5}, "note": "x" * 8_000_000})
    read = Read(data)
    assert read.names == ["a"]
    assert read.metadata["distributedInfo"] == {"rank": 5}
    assert Reason.TRAILING_CONTENT in read.reasons


@pytest.mark.parametrize("place", ["before", "after"])
def test_metadata_that_does_not_parse_is_looked_through_for_what_matters(place: str) -> None:
    broken = b'"note": "C:\\qux", "distributedInfo": {"rank": 5}'
    events = b'"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]'
    read = Read(b"{" + b", ".join([broken, events] if place == "before" else [events, broken]) + b"}")
    assert (read.names, read.metadata["distributedInfo"]) == (["a"], {"rank": 5})
    assert read.reasons


def test_what_stands_before_the_events_wins_over_what_stands_after() -> None:
    data = (
        b'{"traceName": "first", "traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}], "traceName": "second"}'
    )
    assert Read(data).metadata == {"traceName": "first"}


# --- other shapes -----------------------------------------------------------------------------------------------------


def test_a_bare_list_of_events_is_a_trace() -> None:
    read = Read(plain(ops("a", "b")))
    assert (read.names, read.metadata, read.reasons) == (["a", "b"], {}, set())


@pytest.mark.parametrize("data", [b"[]", b"[ \n ]", b"["])
def test_a_bare_list_without_events_is_no_trace(data: bytes) -> None:
    read = Read(data)
    with pytest.raises(NotATraceError) as caught:
        read.document.refuse_if_void(len(read.events))
    assert str(caught.value) == "t.json: a JSON list without any event, so not a trace."


def test_an_empty_list_under_its_name_is_an_empty_trace() -> None:
    read = Read(b'{"traceEvents": []}')
    read.document.refuse_if_void(len(read.events))
    assert (read.names, read.reasons) == ([], set())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("most", [1, 7, 1 << 30])
def test_utf_16_is_converted(encoding: str, most: int) -> None:
    read = Read(plain({"traceEvents": ops("käse", "中文", "😀")}).decode().encode(encoding), most)
    assert (read.names, read.reasons) == (["käse", "中文", "😀"], {Reason.UTF16_TEXT})


@pytest.mark.parametrize("most", [1, 7, 1 << 30])
def test_a_byte_order_mark_is_skipped(most: int) -> None:
    read = Read(codecs.BOM_UTF8 + document(ops("a", "b")), most)
    assert (read.names, read.reasons) == (["a", "b"], {Reason.BYTE_ORDER_MARK})


def test_white_space_around_the_document_is_nothing() -> None:
    read = Read(b" \n" * 3_000_000 + document(ops("a")) + b"\n\n\0\0")
    assert (read.names, read.reasons) == (["a"], set())


def test_a_second_document_is_ignored_and_noticed() -> None:
    read = Read(document(ops("a")) + document(ops("b"), rank=7))
    assert (read.names, read.metadata["distributedInfo"]["rank"]) == (["a"], 0)
    assert read.reasons == {Reason.TRAILING_CONTENT}


def test_content_after_a_bare_list_is_noticed() -> None:
    read = Read(plain(ops("a")) + b' {"more": 1}')
    assert (read.names, read.reasons) == (["a"], {Reason.TRAILING_CONTENT})


# --- what ends too early ----------------------------------------------------------------------------------------------


def test_a_document_cut_at_any_byte_gives_every_event_before_the_cut() -> None:
    events = ops("a", "b", "c", "d")
    data = document(events, traceName="x")
    ends = [data.index(plain(event)) + len(plain(event)) for event in events]
    start = data.index(b'"traceEvents": [') + len(b'"traceEvents": [')
    for size in range(start, len(data) - 1):
        read = Read(data[:size])
        assert read.names == [event["name"] for event, end in zip(events, ends, strict=True) if end <= size]
        assert Reason.TRUNCATED_FILE in read.reasons
        assert (Reason.CUT_EVENT in read.reasons) == (
            any(data.index(plain(one)) < size < end for one, end in zip(events, ends, strict=True))
        )


def test_a_missing_brace_at_the_end_is_noticed() -> None:
    read = Read(document(ops("a"))[:-1])
    assert (read.names, read.reasons) == (["a"], {Reason.TRUNCATED_FILE})


def test_nesting_that_never_ends_is_refused() -> None:
    with pytest.raises(RefusedInputError) as caught:
        Read(b'{"a": ' + b"[" * 5000)
    assert str(caught.value) == "t.json: nests deeper than 1,000 levels, as no trace does; not read."


# --- what is no trace -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "t.json: the file is empty: the disk was full or the export died. Record it again."),
        (b" \n ", "t.json: the file is empty: the disk was full or the export died. Record it again."),
        (b"<!DOCTYPE html><html>", "t.json: not a trace but an HTML page (a failed download?)."),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "t.json: not a trace but a git-lfs pointer; run `git lfs pull` to get the trace.",
        ),
        (
            b"PK\x03\x04rest",
            "t.json: not a trace but a zip archive; unpack it and give Redline the traces inside.",
        ),
        (
            b"\x80\x04\x95rest",
            "t.json: not a trace but a pickle; if it is a memory snapshot, `redline memory` reads it.",
        ),
        (b"PAR1rest", "t.json: not a trace but a Parquet file."),
        (
            b'"text"',
            "t.json: perhaps JSON, but it has no traceEvents, so it is not a trace of torch.profiler.",
        ),
        (b"rubbish", "t.json: not JSON, so not a trace of torch.profiler (begins with b'rubbish')."),
        (
            b'{"key": 1}',
            "t.json: JSON, but it has no traceEvents: not a trace of torch.profiler.",
        ),
        (b"{", "t.json: JSON, but it has no traceEvents: not a trace of torch.profiler, or cut before it."),
        (
            b'{"traceEvents": {"a": 1}}',
            "t.json: its traceEvents is not a list, so there are no events in it.",
        ),
        (b'{"traceEvents": [[1], 2]}', "t.json: a list of lists, so there are no events in it."),
        (b"[[1], 2]", "t.json: a list of lists, so there are no events in it."),
    ],
)
def test_what_is_no_trace_is_refused_saying_what_it_seems(data: bytes, message: str) -> None:
    with pytest.raises(NotATraceError) as caught:
        Read(data)
    assert str(caught.value) == message
