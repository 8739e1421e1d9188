"""Many ranks into one trace: the same spans on one clock, within the budget, and proof that nothing planned is lost."""

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from redline.artifacts import write_atomic
from redline.errors import ClockError, InputError, OutputError
from redline.job import merge as merge_module
from redline.job.merge import LEVELS
from redline.timeline.timeline import Kind, Timeline
from redline.trace.reader import read_file
from redline.verbs.inspect import inspect
from redline.verbs.merge import merge
from tests.support.events import Event, collective, document, kernel, names_of, op, span
from tests.support.traces.jobspec import JobSpec
from tests.support.traces.synthetic import write_job

OFFSETS_US = (0.0, 50_000.0, -1_234.5, 7.0)
PLENTY = 10**9


@pytest.fixture(scope="module")
def job_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    spec = JobSpec(ranks=4, steps=2, layers=1, with_stacks=True, clock_offsets_us=OFFSETS_US)
    write_job(spec, folder, compress=False)
    return folder


def timelines_of(folder: Path) -> list[Timeline]:
    return [read_file(folder / f"rank-{rank}.pt.trace.json").timelines[0] for rank in range(4)]


def unix_spans(timeline: Timeline, offset_ns: int = 0) -> Counter[tuple[int, int, int, str]]:
    """Kind, start, duration and name of every span, the start as Unix time."""
    spans = timeline.spans
    starts = (spans.start_ns + (timeline.zero_ns - offset_ns)).tolist()
    return Counter(zip(spans.kind.tolist(), starts, spans.dur_ns.tolist(), names_of(timeline), strict=True))


def write(folder: Path, *documents: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for number, data in enumerate(documents):
        (folder / f"rank-{number}.json").write_bytes(data)
    return folder


# --- there and back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["merged.json", "merged.json.gz"])
def test_every_rank_reads_back_with_the_same_spans_on_one_clock(job_folder: Path, tmp_path: Path, name: str) -> None:
    clocks = inspect([job_folder]).clocks
    result = merge([job_folder], tmp_path / name, budget_bytes=PLENTY)
    assert (result.ranks, result.left_out_ranks, result.left_out_kinds) == ((0, 1, 2, 3), (), "")
    found = read_file(tmp_path / name).timelines
    assert [timeline.rank for timeline in found] == [0, 1, 2, 3]
    for timeline, original, offset_ns in zip(found, timelines_of(job_folder), clocks.offset_ns, strict=True):
        timeline.self_check()
        assert unix_spans(timeline) == unix_spans(original, offset_ns)


def test_links_survive(job_folder: Path, tmp_path: Path) -> None:
    merge([job_folder], tmp_path / "merged.json")
    for found, original in zip(read_file(tmp_path / "merged.json").timelines, timelines_of(job_folder), strict=True):
        for column in ("launch", "operator"):
            have = [(one.device_work.columns()[column] >= 0).sum() for one in (found, original)]
            assert have[0] == have[1] > 0
        assert (found.operators.forward >= 0).sum() == (original.operators.forward >= 0).sum() > 0


def test_collectives_end_together_in_the_merged_trace(job_folder: Path, tmp_path: Path) -> None:
    merge([job_folder], tmp_path / "merged.json")
    ends = []
    for timeline in read_file(tmp_path / "merged.json").timelines:
        rows = timeline.communications.row
        ends.append((timeline.spans.end_ns[rows] + timeline.zero_ns).tolist())
    for of_one_operation in zip(*ends, strict=True):
        assert max(of_one_operation) - min(of_one_operation) <= 5_000


def test_the_counts_are_those_of_the_file(job_folder: Path, tmp_path: Path) -> None:
    result = merge([job_folder], tmp_path / "merged.json")
    text = (tmp_path / "merged.json").read_bytes()
    phases = Counter(event["ph"] for event in json.loads(text)["traceEvents"])
    assert result.events == phases["X"] + phases["i"]
    assert result.arrows == phases["s"] == phases["f"] > 0
    assert result.size_bytes == len(text)


def test_a_merged_trace_says_what_it_is(job_folder: Path, tmp_path: Path) -> None:
    merge([job_folder], tmp_path / "merged.json")
    record = json.loads((tmp_path / "merged.json").read_bytes())["redline"]
    assert (record["kind"], record["made_by"], record["synthetic"]) == ("merged-trace", "redline merge", True)


def test_one_synthetic_rank_makes_the_merged_trace_synthetic(tmp_path: Path) -> None:
    events = [op("a", 0, 50), collective(10, 5)]
    made_up = document(events, rank=1, world_size=2, synthetic="somebody")
    merge([write(tmp_path / "job", document(events, rank=0, world_size=2), made_up)], tmp_path / "merged.json")
    assert json.loads((tmp_path / "merged.json").read_bytes())["redline"]["synthetic"] is True


def test_the_same_job_gives_the_same_bytes(job_folder: Path, tmp_path: Path) -> None:
    for name in ("one.json", "two.json", "three.json.gz"):
        merge([job_folder], tmp_path / name)
    first = (tmp_path / "one.json").read_bytes()
    assert first == (tmp_path / "two.json").read_bytes()
    assert first == gzip.decompress((tmp_path / "three.json.gz").read_bytes())


def test_a_single_rank_can_be_merged(tmp_path: Path) -> None:
    folder = write(tmp_path / "job", document([op("a", 0, 5)]))
    assert merge([folder], tmp_path / "merged.json").ranks == (0,)


# --- budget -----------------------------------------------------------------------------------------------------------


def full_size(folder: Path, tmp_path: Path) -> int:
    return merge([folder], tmp_path / "full.json", budget_bytes=PLENTY).size_bytes


def test_less_budget_leaves_out_more_and_says_so(job_folder: Path, tmp_path: Path) -> None:
    whole = full_size(job_folder, tmp_path)
    seen = []
    for share in (100, 90, 70, 60, 50, 40, 30, 20, 10):
        budget = whole * share // 100
        result = merge([job_folder], tmp_path / "part.json", budget_bytes=budget, force=True)
        assert result.size_bytes <= budget
        seen.append((result.left_out_kinds, len(result.ranks)))
        assert sorted([*result.ranks, *result.left_out_ranks]) == [0, 1, 2, 3]
    levels = [level for level, _ in LEVELS]
    places = [(levels.index(left_out), -ranks) for left_out, ranks in seen]
    assert places == sorted(places)
    assert {left_out for left_out, _ in seen} >= set(levels[1:])
    assert seen[-1][1] < 4


@pytest.mark.parametrize(("level", "kinds"), LEVELS[1:])
def test_what_is_left_out_is_not_in_the_file(
    job_folder: Path, tmp_path: Path, level: str, kinds: frozenset[Kind]
) -> None:
    whole = full_size(job_folder, tmp_path)
    budgets = (whole * share // 100 for share in range(90, 10, -10))
    results = (merge([job_folder], tmp_path / "part.json", budget_bytes=budget, force=True) for budget in budgets)
    assert level in (result.left_out_kinds for result in results)  # and no further: the file is of this level
    for timeline, original in zip(read_file(tmp_path / "part.json").timelines, timelines_of(job_folder), strict=False):
        found = Counter(timeline.spans.kind.tolist())
        assert set(found) <= set(kinds)
        assert found == {kind: count for kind, count in Counter(original.spans.kind.tolist()).items() if kind in kinds}


def test_where_not_all_ranks_fit_those_that_do_are_spread(tmp_path: Path) -> None:
    kernels = [kernel(f"kernel {number}", 10 * number, 5, correlation=number + 1) for number in range(100)]
    folder = write(tmp_path / "job", *(document(kernels, rank=rank, world_size=5) for rank in range(5)))
    whole = full_size(folder, tmp_path)
    result = merge([folder], tmp_path / "part.json", budget_bytes=whole * 3 // 4)
    assert (result.ranks, result.left_out_ranks) == ((0, 2, 4), (1, 3))


def test_a_budget_too_small_for_one_rank_is_refused(job_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        OutputError, match=r"one rank alone needs .+, the budget is 1\.00 kB: raise `budget_bytes=\.\.\.`\."
    ):
        merge([job_folder], tmp_path / "merged.json", budget_bytes=1000)
    assert list(tmp_path.iterdir()) == []


def test_ranks_with_longer_names_than_the_largest_still_fit(tmp_path: Path) -> None:
    short = [op("a", 10 * number, 5) for number in range(300)]
    long = [op(f"{number}" + "x" * 500, 10 * number, 5) for number in range(299)]
    folder = write(tmp_path / "job", document(short, rank=0, world_size=2), document(long, rank=1, world_size=2))
    result = merge([folder], tmp_path / "merged.json", budget_bytes=100_000)
    assert result.size_bytes <= 100_000


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_clocks_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    dice = random.Random(0)

    def rank(number: int) -> bytes:
        ends = [collective(100_000 * one + dice.uniform(0, 40_000), 5) for one in range(30)]
        return document([op("a", 0, 5), *ends], rank=number, world_size=2)

    with pytest.raises(ClockError, match=r"clocks of the ranks do not fit together.+rank \d.+ apart") as caught:
        merge([write(tmp_path / "job", rank(0), rank(1))], tmp_path / "merged.json")
    assert len(str(caught.value).splitlines()) == 2
    assert not (tmp_path / "merged.json").exists()


def test_windows_that_lie_apart_are_refused(tmp_path: Path) -> None:
    ranks = [document([op("a", 60_000_000 * rank, 1_000_000)], rank=rank, world_size=2) for rank in (0, 1)]
    with pytest.raises(ClockError, match=r"share no collective.+59\.00 s apart"):
        merge([write(tmp_path / "job", *ranks)], tmp_path / "merged.json")


def test_windows_that_overlap_need_no_collective(tmp_path: Path) -> None:
    ranks = [document([op("a", 500 * rank, 1000)], rank=rank, world_size=2) for rank in (0, 1)]
    result = merge([write(tmp_path / "job", *ranks)], tmp_path / "merged.json")
    assert (result.ranks, result.on_own_clocks) == ((0, 1), (0, 1))
    first, second = map(unix_spans, read_file(tmp_path / "merged.json").timelines)
    assert (list(first), list(second)) == ([(Kind.OPERATOR, 0, 10**6, "a")], [(Kind.OPERATOR, 500_000, 10**6, "a")])


def test_windows_are_compared_on_the_common_clock(tmp_path: Path) -> None:
    """Ranks 0 and 1 are aligned, with clocks an hour apart; rank 2 shares nothing but ran beside rank 0."""
    hour_us = 3.6e9

    def rank(number: int, clock_us: float, *, shares: bool) -> bytes:
        events = [op("a", clock_us, 1000), *(collective(clock_us + 10 * one, 5) for one in range(1, 5) if shares)]
        return document(events, rank=number, world_size=3)

    folder = write(tmp_path / "job", rank(0, 0, shares=True), rank(1, hour_us, shares=True), rank(2, 0, shares=False))
    assert merge([folder], tmp_path / "merged.json").ranks == (0, 1, 2)


def test_two_traces_of_one_rank_are_refused(tmp_path: Path) -> None:
    data = document([op("a", 0, 1000)], rank=0, world_size=2)
    folder = write(tmp_path / "job", data, data)
    with pytest.raises(InputError, match=r"more than one trace claims rank 0") as caught:
        merge([folder], tmp_path / "merged.json")
    assert all(f"rank-{number}.json" in str(caught.value) for number in (0, 1))


def test_an_existing_file_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    folder = write(tmp_path / "job", document([op("a", 0, 5)]))
    (tmp_path / "merged.json").write_text("precious")
    with pytest.raises(OutputError, match=r"already exists; use `force=True`"):
        merge([folder], tmp_path / "merged.json")
    assert (tmp_path / "merged.json").read_text() == "precious"
    merge([folder], tmp_path / "merged.json", force=True)
    assert len(read_file(tmp_path / "merged.json").timelines) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("merged.txt", "{}: a merged trace is written as .json or .json.gz; give it such a name."),
        ("folder.json", "cannot write {}: it is a folder; give the name of a file"),
        ("none/merged.json", "cannot write {}: the folder {}/none does not exist; create it first"),
    ],
)
def test_a_place_that_cannot_be_is_refused_before_anything_is_read(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(OutputError) as caught:
        merge(["no such trace"], tmp_path / name)
    assert str(caught.value) == message.format(tmp_path / name, tmp_path)


# --- proof ------------------------------------------------------------------------------------------------------------


def losing(victim: str) -> Any:
    """A write_atomic after which one event of this name is gone from the file."""

    @contextmanager
    def write_and_lose(path: Path, *, force: bool = False) -> Iterator[BinaryIO]:
        with write_atomic(path, force=force) as file:
            yield file
        record = json.loads(path.read_bytes())
        lost = next(event for event in record["traceEvents"] if event["name"] == victim)
        record["traceEvents"].remove(lost)
        path.write_text(json.dumps(record))

    return write_and_lose


@pytest.mark.parametrize(("victim", "what"), [("the kernel", "kernel"), ("the operator", "cpu_op"), ("ac2g", "ac2g")])
def test_an_event_that_the_disk_lost_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str, what: str
) -> None:
    events: list[Event] = [
        op("the operator", 0, 50),
        span("cuda_runtime", "cudaLaunchKernel", 10, 2, args={"correlation": 1}),
        kernel("the kernel", 30, 5, correlation=1),
    ]
    folder = write(tmp_path / "job", document(events))
    monkeypatch.setattr(merge_module, "write_atomic", losing(victim))
    with pytest.raises(OutputError) as caught:
        merge([folder], tmp_path / "merged.json")
    count = 2 if what == "ac2g" else 1
    assert str(caught.value) == (
        f"{tmp_path}/merged.json: {count} events of {what} of rank 0 were written, {count - 1} read back.\n"
        "The file cannot be trusted: check the disk and merge again."
    )


def test_a_file_that_cannot_be_trusted_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "job", document([op("the operator", 0, 50)]))
    monkeypatch.setattr(merge_module, "write_atomic", losing("the operator"))
    with pytest.raises(OutputError):
        merge([folder], tmp_path / "merged.json")
    assert not (tmp_path / "merged.json").exists()


@pytest.mark.parametrize("device", [None, 5000])
def test_odd_device_numbers_are_no_loss(tmp_path: Path, device: int | None) -> None:
    args = {"correlation": 3} if device is None else {"correlation": 3, "device": device}
    odd = span("kernel", "k", 10, 5, pid=25624, tid=7, args=args)
    folder = write(tmp_path / "job", document([op("a", 0, 50), odd]))
    assert merge([folder], tmp_path / "merged.json").events == 2


def test_an_absurd_rank_is_no_crash(tmp_path: Path) -> None:
    folder = write(tmp_path / "job", document([op("a", 0, 50), kernel("k", 60, 5)], rank=2**62))
    assert merge([folder], tmp_path / "merged.json").events == 2
