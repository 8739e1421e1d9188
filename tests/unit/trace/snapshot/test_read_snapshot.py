"""Snapshots become columns: what torch wrote, to the byte; damaged ones are refused, or used as far as they go."""

import gzip
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redline.errors import InputError
from redline.timeline.problems import Reason
from redline.trace.snapshot.plain_pickle import numbers_of
from redline.trace.snapshot.read_snapshot import looks_like_snapshot, read_snapshot
from redline.trace.snapshot.snapshot import AllocatorAction, BlockState, Snapshot
from tests.support.made_snapshots import MadeAllocator, random_allocator


def _written(content: Any, path: Path, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def _events(snapshot: Snapshot) -> list[dict[str, Any]]:
    events = snapshot.events
    rows = []
    for row in range(len(events)):
        action = AllocatorAction(events.action[row])
        rows.append(
            {
                "action": action.name.lower(),
                "device_free" if action is AllocatorAction.OOM else "addr": int(events.address[row]),
                "size": int(events.size_bytes[row]),
                "stream": int(events.stream[row]),
                "time_us": int(events.at_us[row]),
                "frames": [
                    {"name": frame.name, "filename": frame.file, "line": frame.line}
                    for frame in snapshot.frames_of(int(events.stack[row]))
                ],
            }
        )
    return rows


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_event_and_block_is_as_python_reads_it(tmp_path: Path, protocol: int) -> None:
    made = random_allocator(3, 1500)
    snapshot = read_snapshot(made.write(tmp_path / "a.pickle", protocol))
    truth = made.snapshot()
    assert _events(snapshot) == truth["device_traces"][0]
    blocks = [block for segment in truth["segments"] for block in segment["blocks"]]
    assert snapshot.blocks.address.tolist() == [block["address"] for block in blocks]
    assert snapshot.blocks.size_bytes.tolist() == [block["size"] for block in blocks]
    states = [BlockState(state) for state in snapshot.blocks.state]
    assert [state is BlockState.ALLOCATED for state in states] == [b["state"] == "active_allocated" for b in blocks]
    assert snapshot.settings["expandable_segments"] == "False"
    assert snapshot.history_is_whole
    assert not snapshot.problems


def test_packed_files_are_the_same(tmp_path: Path) -> None:
    made = random_allocator(4, 300)
    plain = read_snapshot(made.write(tmp_path / "a.pickle"))
    packed = tmp_path / "a.pickle.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.pickle").read_bytes()))
    assert _events(read_snapshot(packed)) == _events(plain)
    assert looks_like_snapshot(packed)


def test_fields_of_other_versions_of_torch(tmp_path: Path) -> None:
    """Torch 2.1 has no times and blocks without addresses; newer ones say more of every event."""
    content = random_allocator(5, 200).snapshot()
    old = pickle.loads(pickle.dumps(content))
    for segment in old["segments"]:
        for block in segment["blocks"]:
            del block["address"]
    for event in old["device_traces"][0]:
        del event["time_us"]
    del old["allocator_settings"], old["external_annotations"]
    new = pickle.loads(pickle.dumps(content))
    for event in new["device_traces"][0]:
        event |= {"compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0)}
    known = read_snapshot(_written(content, tmp_path / "known"))
    read_old, read_new = (read_snapshot(_written(made, tmp_path / "made")) for made in (old, new))
    assert read_old.blocks.address.tolist() == known.blocks.address.tolist()
    assert read_old.events.address.tolist() == known.events.address.tolist()
    assert _events(read_new) == _events(known)


def test_unknown_actions_are_counted(tmp_path: Path) -> None:
    content = random_allocator(6, 50).snapshot()
    content["device_traces"][0].append({"action": "user_defined", "addr": 0, "size": 0, "stream": 0, "frames": []})
    snapshot = read_snapshot(_written(content, tmp_path / "a"))
    assert [(problem.reason, problem.count) for problem in snapshot.problems] == [(Reason.UNKNOWN_ALLOCATOR_ACTION, 1)]


def test_numbers_of_any_width() -> None:
    values = [0, 1, 255, 256, 65535, 65536, -1, -(2**31), 2**31 - 1, 2**31, 2**40, -(2**40), 2**47, 2**62, -(2**62)]
    texts = [pickle.dumps(value, 2)[2:-1] for value in values]
    assert numbers_of(texts).tolist() == values


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_file_that_is_cut_in_its_history_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    made = random_allocator(7, 1000)
    data = made.write(tmp_path / "a").read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(data[: int(len(data) * 0.8)])
    snapshot = read_snapshot(cut)
    assert not snapshot.history_is_whole
    assert [problem.reason for problem in snapshot.problems] == [Reason.TRUNCATED_FILE]
    assert 0 < len(snapshot.events) < len(made.events)
    assert _events(snapshot) == made.events[: len(snapshot.events)]
    assert int(snapshot.segments.size_bytes.sum()) == made.reserved


def test_a_packed_file_that_is_cut(tmp_path: Path) -> None:
    made = random_allocator(7, 1000)
    data = gzip.compress(made.write(tmp_path / "a").read_bytes())
    cut = tmp_path / "cut.gz"
    cut.write_bytes(data[: int(len(data) * 0.9)])
    snapshot = read_snapshot(cut)
    assert not snapshot.history_is_whole
    assert _events(snapshot) == made.events[: len(snapshot.events)]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.03])
def test_a_file_that_is_cut_in_its_segments_is_refused(tmp_path: Path, share: float) -> None:
    data = random_allocator(7, 1000).write(tmp_path / "a").read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InputError, match=r"not a whole memory snapshot: .*_dump_snapshot wrote"):
        read_snapshot(cut)


def _small() -> dict[str, Any]:
    made = MadeAllocator()
    made.alloc(1000, ("f", "a.py", 1))
    made.alloc(5000, ("g", "a.py", 2))
    return made.snapshot()


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (("segments", 0, "blocks", 0, "size"), 4096, "do not add up to their segment"),
        (("segments", 0, "blocks", 0, "size"), -512, "without a size"),
        (("segments", 0, "blocks", 0, "size"), 1.5, "should be a whole number"),
        (("segments", 0, "blocks", 0, "size"), True, "should be a whole number"),
        (("segments", 0, "blocks", 0, "size"), 2**70, "more than 64 bits"),
        (("segments", 0, "blocks", 0, "requested_size"), 1025, "asked for more than it is"),
        (("segments", 0, "blocks", 0, "address"), 12, "do not follow one another"),
        (("segments", 0, "blocks", 0, "state"), "lost", "a state that torch does not know"),
        (("segments", 0, "allocated_size"), 12, "do not add up to what their segment says"),
        (("segments", 0, "blocks"), "none", "a segment without blocks"),
        (("segments",), {}, "segments is no list"),
        (("device_traces",), 3, "device_traces is no list"),
    ],
)
def test_nonsense_is_refused_with_the_reason(tmp_path: Path, place: tuple[Any, ...], value: Any, why: str) -> None:
    content = _small()
    inner: Any = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(InputError, match=why) as raised:
        read_snapshot(_written(content, tmp_path / "a"))
    assert "\n" not in str(raised.value)


def test_an_event_that_makes_no_sense_ends_the_history(tmp_path: Path) -> None:
    content = _small()
    content["device_traces"][0][2]["frames"] = [1]
    snapshot = read_snapshot(_written(content, tmp_path / "a"))
    assert len(snapshot.events) == 2
    assert not snapshot.history_is_whole
    assert snapshot.problems[0].example == "a stack of what are no frames"


@pytest.mark.parametrize("content", [[], {}, {"a": 1}, "text", 7, {"model": [1, 2]}])
def test_other_pickles_are_no_snapshots(tmp_path: Path, content: Any) -> None:
    with pytest.raises(InputError, match="memory snapshot"):
        read_snapshot(_written(content, tmp_path / "a"))


def test_other_files_are_no_snapshots(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"traceEvents": []}')
    assert not looks_like_snapshot(path)
    with pytest.raises(InputError, match="does not begin as a pickle"):
        read_snapshot(path)
    with pytest.raises(InputError, match="cannot be opened"):
        read_snapshot(tmp_path / "missing")


def test_a_segment_listed_twice_is_refused(tmp_path: Path) -> None:
    content = _small()
    content["segments"].append(content["segments"][0])
    with pytest.raises(InputError, match="where 1 were written"):
        read_snapshot(_written(content, tmp_path / "a"))


# --- size -------------------------------------------------------------------------------------------------------------


def test_time_grows_with_the_file(tmp_path: Path) -> None:
    """50,000 events, whose rows python's own unpickler makes in a fifth of the time; 12 times as long is too slow."""
    frames = [{"name": f"f{n}", "filename": "a.py", "line": n} for n in range(40)]
    events = [
        {"action": "alloc", "addr": (1 << 46) + 512 * n, "size": 512, "stream": 0, "time_us": (1 << 50) + n,
         "frames": frames[n % 20 : n % 20 + 15]}
        for n in range(50_000)
    ]  # fmt: skip
    path = _written({"segments": [], "device_traces": [events]}, tmp_path / "a")
    times = {}
    for name, read in (("own", lambda: read_snapshot(path)), ("python", lambda: pickle.loads(path.read_bytes()))):
        begin = time.process_time()
        read()
        times[name] = time.process_time() - begin
    assert times["own"] < 12 * times["python"] + 0.2
    assert np.array_equal(read_snapshot(path).events.address, np.array([event["addr"] for event in events]))
