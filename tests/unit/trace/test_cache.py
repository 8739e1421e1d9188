"""What was read once is not decoded again, and nobody can tell from the result."""

import gzip
import json
import os
import time
from pathlib import Path

import pytest

from redline.errors import DamagedError, InputError
from redline.timeline.problems import Reason
from redline.timeline.timeline import Timeline
from redline.trace import cache
from redline.trace.cache import cache_folder, read_cached
from redline.trace.inflate import Limits
from redline.trace.reader import ReadOptions, ReadResult, read_file
from tests.support.events import document, ledger_of, names_of, op, region

EVENTS = [region("ProfilerStep#1", 0, 50), region("my step", 10, 20), op("aten::mm", 15, 5)]


@pytest.fixture(autouse=True)
def every_trace_is_worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WORTH_BYTES", 0)
    monkeypatch.setattr(cache, "_SETTLED_NS", -(10**12))  # nor do tests wait for the clock of the file system


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_bytes(document(EVENTS))
    return path


def read(path: Path, folder: Path | None, **options: object) -> Timeline:
    (timeline,) = read_cached(path, ReadOptions(**options), folder).timelines  # type: ignore[arg-type]
    return timeline


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.timelines"))


def refuse_to_read(path: Path, options: ReadOptions | None = None) -> ReadResult:
    raise AssertionError(f"{path} was read again")


# --- where ------------------------------------------------------------------------------------------------------------


def test_the_folder_is_the_users_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REDLINE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("REDLINE_CACHE", "off")
    assert cache_folder() is None


def test_else_it_is_where_caches_belong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDLINE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/redline/traces")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/redline/traces")


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is run under a number: `docker run --user 4242`."""
    monkeypatch.delenv("REDLINE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_242_424)
    assert cache_folder() is None


# --- reading ----------------------------------------------------------------------------------------------------------


def test_the_second_reading_comes_from_the_cache(trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read(trace, folder)
    monkeypatch.setattr(cache, "read_file", refuse_to_read)
    second = read(trace, folder)
    assert names_of(first) == names_of(second)
    assert (first.source, first.step_anchor) == (second.source, second.step_anchor)
    assert (first.steps.start_ns == second.steps.start_ns).all()
    assert len(kept(folder)) == 1


def test_nothing_is_kept_where_the_cache_is_off(trace: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    read(trace, None)
    assert sorted(tmp_path.rglob("*")) == before


def test_small_traces_are_not_kept(trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WORTH_BYTES", 10**6)
    read(trace, folder)
    assert not folder.exists()


def test_a_file_that_changed_is_read_again(trace: Path, folder: Path) -> None:
    read(trace, folder)
    trace.write_bytes(document([op("changed", 0, 5)]))
    assert names_of(read(trace, folder)) == ["changed"]


def test_a_file_of_the_same_size_that_changed_is_read_again(trace: Path, folder: Path) -> None:
    read(trace, folder)
    trace.write_bytes(trace.read_bytes().replace(b"aten::mm", b"aten::nn"))
    os.utime(trace, ns=(1, trace.stat().st_mtime_ns + 1))
    assert "aten::nn" in names_of(read(trace, folder))


def test_a_replacement_of_the_same_size_and_time_is_read_again(trace: Path, folder: Path, tmp_path: Path) -> None:
    read(trace, folder)
    before = trace.stat()
    other = tmp_path / "other.json"
    other.write_bytes(trace.read_bytes().replace(b"aten::mm", b"aten::nn"))
    other.rename(trace)
    os.utime(trace, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (trace.stat().st_size, trace.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert "aten::nn" in names_of(read(trace, folder))


def test_a_file_rewritten_in_place_with_its_old_time_is_read_again(trace: Path, folder: Path) -> None:
    read(trace, folder)
    before = trace.stat()
    time.sleep(0.05)  # longer than a tick of the clock that stamps files
    trace.write_bytes(trace.read_bytes().replace(b"aten::mm", b"aten::nn"))
    os.utime(trace, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert trace.stat().st_ino == before.st_ino
    assert "aten::nn" in names_of(read(trace, folder))


def test_a_file_that_changed_a_moment_ago_is_not_kept(
    trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one tick of the clock, two states of a file look alike."""
    monkeypatch.setattr(cache, "_SETTLED_NS", 10**12)
    read(trace, folder)
    assert not folder.exists()


def test_smaller_limits_are_not_answered_from_a_reading_under_larger_ones(trace: Path, folder: Path) -> None:
    trace.write_bytes(gzip.compress(trace.read_bytes()))
    read(trace, folder)
    with pytest.raises(InputError):
        read(trace, folder, limits=Limits(inflated_bytes=10))


def test_a_change_of_the_reader_reads_again(trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(trace, folder)
    monkeypatch.setattr(cache, "code_key", lambda *_: "another")
    read(trace, folder)
    assert len(kept(folder)) == 2


def test_code_that_changed_after_it_was_imported_keeps_nothing(
    trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook, while somebody edits the package: what runs is not what the files say."""
    monkeypatch.setattr(cache, "_IMPORTED_NS", 0)
    monkeypatch.setattr(cache, "code_key", cache.code_key.__wrapped__)
    assert len(read(trace, folder).spans) == 3
    assert not folder.exists()


def test_code_that_cannot_be_read_has_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a package that is run from an archive."""
    monkeypatch.setattr(cache, "_PACKAGE", tmp_path / "redline.zip" / "redline")
    assert cache.code_key.__wrapped__(*cache.READING) == ""


@pytest.mark.parametrize("damage", [b"", b"rubbish", None])
def test_a_damaged_file_in_the_cache_is_ignored_and_replaced(trace: Path, folder: Path, damage: bytes | None) -> None:
    read(trace, folder)
    (file,) = kept(folder)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert names_of(read(trace, folder)) == ["ProfilerStep#1", "my step", "aten::mm"]
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_costs_nothing(trace: Path, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    assert len(read(trace, in_the_way / "cache").spans) == 3


def test_a_cache_is_for_its_owner_only(trace: Path, folder: Path) -> None:
    read(trace, folder)
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("times", [1, 2], ids=["fresh", "from the cache"])
def test_the_users_steps_are_honoured(trace: Path, folder: Path, times: int) -> None:
    timelines = [read(trace, folder, step_regex="^my step$") for _ in range(times)]
    timeline = timelines[-1]
    assert [timeline.text(label) for label in timeline.steps.label.tolist()] == ["my step"]
    assert read(trace, folder).step_anchor == "ProfilerStep"


@pytest.mark.parametrize("times", [1, 2], ids=["fresh", "from the cache"])
def test_strictness_is_honoured(trace: Path, folder: Path, times: int) -> None:
    trace.write_bytes(document([*EVENTS, {}]))
    if times == 2:
        assert ledger_of(read(trace, folder)) == {Reason.EMPTY_EVENT: 1}
    with pytest.raises(DamagedError, match="events without any field"):
        read(trace, folder, strict=True)
    assert ledger_of(read(trace, folder)) == {Reason.EMPTY_EVENT: 1}


def test_a_file_that_is_not_there(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path / "no.json", folder)
    assert str(caught.value) == f"{tmp_path}/no.json: cannot be opened (No such file or directory)."


def test_one_file_under_two_names_is_read_under_each(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "data").write_bytes(document(EVENTS, rank=None))
    for rank in (1, 7):
        link = tmp_path / f"rank-{rank}.json"
        link.symlink_to(tmp_path / "data")
        timeline = read(link, folder)
        assert (timeline.rank, timeline.source.path) == (rank, str(link))


def test_a_trace_that_cannot_be_stored_can_still_be_read(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(json.dumps({"host_name": "\ud800", "traceEvents": EVENTS}).encode())
    assert names_of(read(path, folder)) == names_of(read_file(path).timelines[0])
