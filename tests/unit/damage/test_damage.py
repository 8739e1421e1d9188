"""The corpus of damaged traces is what it says: complete, damaged as intended, and truthful about what is lost."""

import gzip
import io
import json
import re
import tarfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
import zstandard

from redline import errors
from redline.timeline.problems import Reason
from tests.support.damage.case import FILE_NAME
from tests.support.damage.corpus import READS, RECIPES, REFUSED, Case, corpus, seed_trace
from tests.support.damage.text import TraceText

ROWS = [f"F{number:02}" for number in range(1, 53)]
SEED = seed_trace()
CASES = {case.id: case for case in corpus(SEED)}
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
CPU = {"cpu_op", "user_annotation", "python_function", "cuda_runtime"}

# Every plain-text case that a strict JSON parser must fail on; all the others must parse.
BROKEN_JSON = {
    "F01-missing-quote",
    "F01-missing-quote-in-flow",
    "F02-backslash-before-quote",
    "F02-backslash-mixed",
    "F02-lone-backslash",
    "F02-trace-name-backslash",
    "F03-dict-as-file-name",
    "F03-newline-and-quotes",
    "F03-raw-newline",
    "F04-control-character",
    "F04-escape-sequence",
    "F04-nul-in-name",
    "F05-cut-character",
    "F05-invalid-bytes",
    "F05-latin-1",
    "F06-bare-inf",
    "F06-bare-minus-nan",
    "F06-inf-as-time",
    "F06-json-infinity",
    "F06-json-nan",
    "F07-unquoted-na",
    "F09-trailing-comma",
    "F10-list-not-closed",
    "F32-group-config-unescaped",
    "F42-deep-argument",
    "F42-deep-list",
    "F42-deep-list-not-closed",
    "F42-deep-metadata",
    "F42-deep-object",
    "F43-5000-digits",
    "F43-5000-digits-in-argument",
    "F44-cut-after-comma",
    "F44-cut-early",
    "F44-cut-in-head",
    "F44-cut-in-tail",
    "F44-cut-inside-character",
    "F44-cut-late",
    "F44-cut-mid-event",
    "F44-nul-padding",
    "F44-nul-padding-between-events",
    "F44-only-a-brace",
    "F44-tmp-after-comma",
    "F44-tmp-mid-event",
    "F46-empty-file",
    "F46-empty-tmp",
    "F47-quote-at-the-end",
    "F47-quote-in-annotation",
    "F47-quote-in-group-description",
    "F47-quote-in-job-name",
    "F47-quote-in-metadata",
    "F47-quotes-and-comma",
    "F47-quotes-in-cpu-op",
    "F50-git-lfs-pointer",
    "F50-html-page",
    "F50-two-documents",
}

PACKED = {
    "F11-gz-of-nothing",
    "F42-gz-bomb",
    "F42-gz-of-gz-bomb",
    "F45-gz-cut-at-40-percent",
    "F45-gz-cut-at-60-percent",
    "F45-gz-cut-at-80-percent",
    "F45-gz-cut-at-95-percent",
    "F45-gz-cut-in-header",
    "F45-gz-without-trailer",
    "F46-29-byte-gz",
    "F50-gz-of-gz",
    "F50-gz-of-two-members",
    "F50-plain-name-gz-content",
    "F50-tar",
    "F50-tar-gz",
    "F50-zip",
    "F50-zstd",
}

# Cases whose events can be checked as they stand: nothing about them needs a repair.
SOUND_TIMES = [
    "F15-child-as-long-as-parent",
    "F15-kernels-touch",
    "F19-slow-launch",
    "F21-dependent-launch",
    "F22-absolute-times",
    "F22-ids-above-2-53",
    "F25-metadata-after-events",
    "F26-no-such-category",
    "F27-no-steps",
    "F29-no-collective-arguments",
    "F34-stretched-steps",
    "F35-graph-launch",
    "F35-kernels-without-launch",
    "F40-child-outlives-parent",
    "F51-unsorted",
    "F53-kernel-before-launch",
]


def strict_json(data: bytes) -> Any:
    def no_constant(name: str) -> Any:
        raise ValueError(name)

    return json.loads(data, parse_float=Decimal, parse_constant=no_constant)


def events_of(data: bytes) -> list[dict[str, Any]]:
    """The events of a file that parses."""
    document = strict_json(data)
    events = document if isinstance(document, list) else document["traceEvents"]
    return [event for event in events if isinstance(event, dict)]


def complete_events(data: bytes) -> list[dict[str, Any]]:
    """The events that stand whole in a file, up to the first that does not."""
    text = data.decode("utf-8", "surrogateescape")
    opening = re.search(r'"traceEvents": \[', text)
    assert opening is not None
    at, events = opening.end(), []
    while (begin := text.find("{", at)) >= 0 and not text[at:begin].strip(" \n,"):
        try:
            event, at = json.JSONDecoder(parse_float=Decimal).raw_decode(text, begin)
        except json.JSONDecodeError:
            break
        events.append(event)
    return events


def timed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event.get("ph") == "X"]


def tracks(events: list[dict[str, Any]], categories: set[str]) -> list[list[tuple[Decimal, Decimal]]]:
    """The (start, end) of the spans of each track, a parent before its children."""
    found: dict[Any, list[tuple[Decimal, Decimal]]] = defaultdict(list)
    for event in timed(events):
        if event.get("cat") in categories:
            start = Decimal(event["ts"])
            found[event["pid"], event["tid"]].append((start, start + Decimal(event["dur"])))
    return [sorted(spans, key=lambda span: (span[0], -span[1])) for spans in found.values()]


def count_outliving(spans: list[tuple[Decimal, Decimal]]) -> int:
    count, open_ends = 0, list[Decimal]()
    for start, end in spans:
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        count += bool(open_ends) and end > open_ends[-1]
        open_ends.append(end)
    return count


def count_before_launch(events: list[dict[str, Any]]) -> int:
    calls = {e["args"]["correlation"]: e["ts"] for e in timed(events) if e.get("cat") == "cuda_runtime"}
    kernels = [(e["ts"], e["args"]["correlation"]) for e in timed(events) if e.get("cat") == "kernel"]
    return sum(ts < calls.get(correlation, ts) for ts, correlation in kernels)


def times_found_wrong(events: list[dict[str, Any]]) -> dict[Reason, int]:
    found = {
        Reason.STREAM_OVERLAP: sum(a[1] > b[0] for spans in tracks(events, DEVICE) for a, b in pairwise(spans)),
        Reason.CHILD_OUTLIVES_PARENT: sum(count_outliving(spans) for spans in tracks(events, CPU)),
        Reason.KERNEL_BEFORE_LAUNCH: count_before_launch(events),
    }
    return {reason: count for reason, count in found.items() if count}


def kernel_time(events: list[dict[str, Any]]) -> Decimal:
    return sum((Decimal(event["dur"]) for event in timed(events) if event.get("cat") == "kernel"), Decimal(0))


def case_of(case_id: str) -> Case:
    return CASES[case_id]


# the seed


def test_seed_is_valid_and_holds_one_of_everything() -> None:
    counts = Counter((event["ph"], event.get("cat")) for event in events_of(SEED))
    assert counts["X", "cpu_op"] == 60
    assert counts["X", "kernel"] == 40
    assert counts["s", "ac2g"] == counts["f", "ac2g"] == 43
    assert {"gpu_memcpy", "python_function", "user_annotation", "Trace"} <= {category for _, category in counts}
    assert {event["tid"] for event in events_of(SEED) if event.get("cat") == "kernel"} == {7, 20}
    assert strict_json(SEED)["distributedInfo"]["world_size"] == 2


def test_seed_has_nothing_wrong_with_it() -> None:
    events = events_of(SEED)
    assert times_found_wrong(events) == {}
    keys = Counter((e["ts"], e["dur"], e["pid"], e["tid"], e["name"]) for e in timed(events))
    assert max(keys.values()) == 1


def test_seed_text_goes_back_to_the_same_bytes() -> None:
    assert TraceText.parse(SEED).render() == SEED


def test_a_seed_without_events_is_an_error() -> None:
    with pytest.raises(ValueError, match="no traceEvents"):
        next(corpus(b'{"a": 1}'))


# the corpus as a whole


def test_every_row_of_the_specification_has_a_case() -> None:
    assert set(ROWS) <= {case.row for case in CASES.values()}


def test_every_recipe_works_on_the_seed() -> None:
    assert list(CASES) == [recipe.id for recipe in RECIPES]
    assert len(set(CASES)) == len(RECIPES)


def test_the_corpus_is_the_same_each_time() -> None:
    assert {case.id: case.data for case in corpus(SEED)} == {case.id: case.data for case in CASES.values()}


def test_expectations_are_consistent() -> None:
    for case in CASES.values():
        expected = case.expected
        assert case.id.startswith(case.row + "-")
        assert expected.outcome in {READS, REFUSED}, case.id
        assert set(expected.counts) <= expected.reasons, case.id
        assert all(count > 0 for count in expected.counts.values()), case.id
        if expected.outcome == REFUSED:
            assert issubclass(getattr(errors, expected.error), errors.InputError), case.id
            assert not expected.reasons, case.id
        else:
            assert not expected.error, case.id


def test_every_case_differs_from_the_seed() -> None:
    for case in CASES.values():
        assert case.data != SEED or case.file_name != FILE_NAME or case.expected.extra_files, case.id


def test_exactly_the_syntactic_cases_fail_to_parse() -> None:
    broken = set()
    for case in CASES.values():
        try:
            strict_json(case.data)
        except (ValueError, RecursionError):
            broken.add(case.id)
    assert broken == BROKEN_JSON | PACKED


def test_a_seed_without_a_gpu_leaves_out_what_it_has_no_event_for() -> None:
    ids = {case.id for case in corpus(case_of("F18-nothing-of-cuda").data)}
    assert "F47-quote-in-annotation" in ids
    assert not ids & {"F14-overlong-kernels", "F21-dependent-launch", "F53-kernel-before-launch"}


# what is lost


@pytest.mark.parametrize(
    "case_id", [case_id for case_id in CASES if case_id[:3] in {"F17", "F18", "F24", "F26", "F27", "F35"}]
)
def test_events_left_out_are_counted_as_lost(case_id: str) -> None:
    case = case_of(case_id)
    assert len(timed(events_of(SEED))) - len(timed(events_of(case.data))) == case.expected.lost_timed_events


@pytest.mark.parametrize(
    "case_id", [case.id for case in CASES.values() if case.row in {"F44", "F45"} and case.expected.outcome == READS]
)
def test_a_cut_loses_exactly_the_incomplete_events(case_id: str) -> None:
    case = case_of(case_id)
    packed = case.data.startswith(b"\x1f\x8b")
    left = complete_events(zlib.decompressobj(31).decompress(case.data) if packed else case.data)
    assert len(timed(events_of(SEED))) - len(timed(left)) == case.expected.lost_timed_events
    assert case.expected.same_kernels == (kernel_time(left) == kernel_time(events_of(SEED)))


def test_damaged_events_keep_their_neighbours() -> None:
    """Away from the damaged event, every byte is the seed's."""
    texts = [event.text for event in TraceText.parse(SEED).events]
    for case_id in (
        "F01-missing-quote",
        "F03-newline-and-quotes",
        "F05-invalid-bytes",
        "F06-bare-inf",
        "F12-end-is-zero",
    ):
        damaged = case_of(case_id).data.decode("utf-8", "surrogateescape")
        assert sum(text not in damaged for text in texts) == 1


# times


@pytest.mark.parametrize("case_id", SOUND_TIMES)
def test_times_are_wrong_only_where_the_case_says_so(case_id: str) -> None:
    case = case_of(case_id)
    assert times_found_wrong(events_of(case.data)) == dict(case.expected.counts)


@pytest.mark.parametrize("case_id", SOUND_TIMES)
def test_kernels_last_as_long_as_in_the_seed(case_id: str) -> None:
    case = case_of(case_id)
    assert case.expected.same_kernels
    assert kernel_time(events_of(case.data)) == kernel_time(events_of(SEED))


@pytest.mark.parametrize("case_id", ["F14-overlong-kernels", "F20-overlapping-kernels"])
def test_overlong_kernels_cut_at_the_next_start_add_what_the_case_says(case_id: str) -> None:
    case = case_of(case_id)
    total, cut = Decimal(0), 0
    for spans in tracks(events_of(case.data), {"kernel"}):
        starts = [start for start, _ in spans]
        for at, (start, end) in enumerate(spans):
            run_over = [later for later in starts[at + 1 :] if later < end]
            cut += len(run_over) >= 3 and end - run_over[0] > 50
            total += min([end, *run_over]) - start
    assert cut == case.expected.counts[Reason.OVERLONG_KERNEL]
    assert total == kernel_time(events_of(SEED)) + case.expected.kernel_time_added_us
    assert kernel_time(events_of(case.data)) > total * 5 / 4


def test_an_unfinished_event_is_the_last_of_its_thread() -> None:
    victim = next(e for e in timed(events_of(case_of("F38-missing-duration").data)) if "dur" not in e)
    later = [e for e in timed(events_of(SEED)) if e["tid"] == victim["tid"] and e["ts"] > victim["ts"]]
    original = next(e for e in timed(events_of(SEED)) if e["ts"] == victim["ts"] and e["name"] == victim["name"])
    assert all(e["ts"] + e["dur"] <= original["ts"] + original["dur"] for e in later)


def test_pairs_of_begin_and_end_nest() -> None:
    events = events_of(case_of("F38-begin-and-end").data)
    marks = [event for event in events if event["ph"] in {"B", "E"}]
    assert [event["ph"] for event in marks] == ["B", "B", "E", "E"]
    assert [event["ts"] for event in marks] == sorted(event["ts"] for event in marks)
    assert len(timed(events)) + 2 == len(timed(events_of(SEED)))


# single cases


def test_injected_fields_fool_a_reader_that_keeps_the_last_value() -> None:
    names = [e["name"] for e in events_of(case_of("F48-injected-category").data) if e.get("cat") == "kernel"]
    assert len(names) == 41
    assert "ncclKernel" in names


def test_a_second_list_of_events_hides_the_first_from_json() -> None:
    assert strict_json(case_of("F51-duplicate-list").data)["traceEvents"] == []


def test_copies_are_counted_without_the_originals() -> None:
    for case_id in ("F51-event-repeated", "F51-all-events-twice"):
        case = case_of(case_id)
        more = len(timed(events_of(case.data))) - len(timed(events_of(SEED)))
        assert case.expected.counts == {Reason.DUPLICATED_EVENT: more}


def test_the_cut_group_description_is_a_string_that_does_not_parse() -> None:
    config = strict_json(case_of("F31-group-config-cut").data)["distributedInfo"]["pg_config"]
    assert isinstance(config, str)
    with pytest.raises(json.JSONDecodeError):
        json.loads(config)


def test_other_ranks_are_whole_traces_of_rank_1() -> None:
    with_others = [case for case in CASES.values() if case.expected.extra_files]
    assert {case.row for case in with_others} == {"F28", "F36", "F37"}
    for case in with_others:
        for name, data in case.expected.extra_files:
            assert name == "rank-1.pt.trace.json"
            assert strict_json(data)["distributedInfo"]["rank"] == 1
            assert times_found_wrong(events_of(data)) == {}


def test_packed_traces_hold_the_seed() -> None:
    unpacked: dict[str, Callable[[bytes], bytes]] = {
        "F50-plain-name-gz-content": gzip.decompress,
        "F50-gz-of-two-members": gzip.decompress,
        "F50-gz-of-gz": lambda data: gzip.decompress(gzip.decompress(data)),
        "F50-zstd": lambda data: zstandard.ZstdDecompressor().decompress(data),
        "F50-tar": _only_member,
        "F50-tar-gz": lambda data: _only_member(gzip.decompress(data)),
    }
    for case_id, unpack in unpacked.items():
        assert unpack(case_of(case_id).data) == SEED, case_id


def _only_member(data: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        (member,) = archive.getmembers()
        content = archive.extractfile(member)
        assert content is not None
        return content.read()


def test_the_gz_of_a_full_disk_is_29_bytes_of_nothing() -> None:
    data = case_of("F46-29-byte-gz").data
    assert len(data) == 29
    assert gzip.decompress(data) == b""


def test_the_bomb_inflates_a_thousandfold() -> None:
    data = case_of("F42-gz-bomb").data
    assert len(gzip.decompress(data)) > 900 * len(data)
    assert gzip.decompress(case_of("F42-gz-of-gz-bomb").data) == data
