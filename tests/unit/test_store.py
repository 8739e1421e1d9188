"""Timelines survive a file of columns unchanged, and a file that is damaged is never believed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from redline.errors import InputError
from redline.testing.damage.seed import seed_trace
from redline.timeline.problems import Problem, Reason
from redline.timeline.timeline import TABLES, Timeline
from redline.trace import store
from tests.conftest import document, kernel, op, read_all, read_one


@pytest.fixture
def timelines(tmp_path: Path) -> tuple[Timeline, ...]:
    return tuple(read_all(seed_trace(), tmp_path, "rank-0.json"))


def assert_same(found: Timeline, expected: Timeline) -> None:
    plain = ("origin", "rank", "rank_origin", "zero_ns", "texts", "lanes", "step_anchor", "metadata", "source")
    for name in plain:
        assert getattr(found, name) == getattr(expected, name)
    for table in TABLES:
        for name, array in getattr(expected, table).columns().items():
            restored = getattr(found, table).columns()[name]
            assert restored.dtype == array.dtype
            assert np.array_equal(restored, array), (table, name)


def test_what_is_saved_is_what_is_loaded(tmp_path: Path, timelines: tuple[Timeline, ...]) -> None:
    path = tmp_path / "kept"
    store.save(path, timelines, "a key")
    (found,) = store.load(path, "a key")
    found.self_check()
    assert_same(found, timelines[0])


def test_several_timelines_and_their_problems(tmp_path: Path) -> None:
    damaged = read_one(document([op("a", 0, 5), {}, op("käse", 10, -5)], rank=1), tmp_path)
    empty = read_one(document([]), tmp_path)
    assert damaged.source.problems
    store.save(tmp_path / "kept", (damaged, empty), "k")
    found = store.load(tmp_path / "kept", "k")
    for one, expected in zip(found, (damaged, empty), strict=True):
        assert_same(one, expected)


def test_columns_are_as_good_as_new(tmp_path: Path, timelines: tuple[Timeline, ...]) -> None:
    """Whoever gets a timeline from the file can do all that a fresh one allows."""
    store.save(tmp_path / "kept", timelines, "k")
    (found,) = store.load(tmp_path / "kept", "k")
    assert found.window_ns == timelines[0].window_ns
    assert len(found.spans.take(np.array([0]))) == 1


def test_another_key_is_another_state_of_the_trace(tmp_path: Path, timelines: tuple[Timeline, ...]) -> None:
    path = tmp_path / "kept"
    store.save(path, timelines, "yesterday")
    with pytest.raises(InputError) as caught:
        store.load(path, "today")
    assert str(caught.value) == f"{path}: made from another state of the trace"


def test_saving_again_replaces(tmp_path: Path, timelines: tuple[Timeline, ...]) -> None:
    path = tmp_path / "kept"
    store.save(path, timelines, "old")
    store.save(path, timelines, "new")
    assert len(store.load(path, "new")) == 1
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".part"] == []


def test_a_file_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"something else")
    with pytest.raises(InputError) as caught:
        store.load(path, "k")
    assert str(caught.value) == f"{path}: damaged (not a file of timelines)"


def test_a_file_of_a_later_redline_is_refused(
    tmp_path: Path, timelines: tuple[Timeline, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SCHEMA_VERSION", store.SCHEMA_VERSION + 1)
    store.save(tmp_path / "kept", timelines, "k")
    monkeypatch.undo()
    with pytest.raises(InputError, match="upgrade it"):
        store.load(tmp_path / "kept", "k")


def small(folder: Path) -> Timeline:
    return read_one(document([op("a", 0, 5), kernel("k", 10, 5)]), folder)


def test_a_file_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    store.save(path, (small(tmp_path),), "k")
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError):
            store.load(path, "k")


def test_a_flipped_bit_is_never_believed(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    timeline = small(tmp_path)
    store.save(path, (timeline,), "k")
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        try:
            (found,) = store.load(path, "k")
        except InputError:
            continue
        assert_same(found, timeline)


def test_metadata_with_half_of_a_surrogate_pair_can_be_kept(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 0, 5)], host_name="ODD").replace(b"ODD", b"\\ud800"), tmp_path)
    store.save(tmp_path / "kept", (timeline,), "k")
    assert store.load(tmp_path / "kept", "k")[0].metadata.host


def test_every_reason_survives(tmp_path: Path) -> None:
    timeline = small(tmp_path)
    problems = tuple(Problem(reason, 3, 7, "example") for reason in Reason)
    everything = replace(timeline, source=replace(timeline.source, problems=problems))
    store.save(tmp_path / "kept", (everything,), "k")
    assert store.load(tmp_path / "kept", "k")[0].source.problems == problems
