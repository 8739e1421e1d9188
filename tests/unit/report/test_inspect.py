"""Text and JSON of `inspect`: what is wrong is said, nothing can harm a terminal, and every key is a promise."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from redline.artifacts import check_envelope
from redline.report import inspect as report
from redline.report.data import json_text
from redline.report.inspect import MOST_ROWS, document_of
from redline.report.terminal import text_of
from redline.verbs.inspect import inspect
from tests.support.events import Event, collective, document, kernel, launch, op, region


def shown(folder: Path, *, verbose: bool = False) -> str:
    return text_of(document_of(inspect([folder]), verbose=verbose))


def write(folder: Path, *documents: bytes) -> Path:
    for number, data in enumerate(documents):
        (folder / f"rank-{number}.json").write_bytes(data)
    return folder


def line(text: str, label: str) -> str:
    (found,) = (one for one in text.splitlines() if one.startswith(f"{label} "))
    return found


def rank(number: int, world_size: int = 2, *, clock_us: float = 0, extra: tuple[Event, ...] = ()) -> bytes:
    events = [
        region("ProfilerStep#1", clock_us, 100),
        op("aten::mm", clock_us + 5, 20),
        launch(clock_us + 10, correlation=1),
        kernel("gemm", clock_us + 30, 25, correlation=1),
        collective(clock_us + 60, 25),
        *extra,
    ]
    devices = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
    return document(events, rank=number, world_size=world_size, deviceProperties=devices, record_shapes=1)


def test_the_first_line_says_what_was_read(tmp_path: Path) -> None:
    first = shown(write(tmp_path, rank(0), rank(1))).splitlines()[0]
    assert first.startswith("2 ranks of 2 in 2 traces: 10 events, ")
    assert "synthetic" not in first


def test_facts_of_a_healthy_job(tmp_path: Path) -> None:
    text = shown(write(tmp_path, rank(0), rank(1, clock_us=5000)))
    assert "NVIDIA H100 80GB HBM3" in line(text, "hardware")
    assert "shapes" in line(text, "recorded")
    assert "1 per rank" in line(text, "steps")
    assert "ProfilerStep" in line(text, "steps")
    assert "median 100.0 us" in line(text, "steps")
    assert "100.0 us" in line(text, "window")
    assert "aligned on 1 collective" in line(text, "clocks")
    assert "5.000 ms" in line(text, "clocks")
    assert line(text, "problems").endswith("none: everything in the traces was used as written")


def test_each_rank_is_a_row(tmp_path: Path) -> None:
    text = shown(write(tmp_path, rank(0), rank(1)))
    rows = [one.split() for one in text.splitlines() if one.strip().startswith(("0 ", "1 "))]
    assert [row[0] for row in rows] == ["0", "1"]
    for row in rows:
        assert "distributedInfo" in row
        assert "50.0" in row  # per cent of the window that the device was busy
        assert "25.00" in row  # us of communication


def test_many_ranks_are_listed_only_where_asked_for(tmp_path: Path) -> None:
    folder = write(tmp_path, *(rank(number, 20) for number in range(20)))
    assert f"... and {20 - MOST_ROWS} more ranks; -v lists all" in shown(folder)
    assert "more ranks" not in shown(folder, verbose=True)


def test_the_ranks_that_lost_most_are_listed_first_of_all(tmp_path: Path) -> None:
    ranks = [rank(number, 20, extra=({},) if number == 19 else ()) for number in range(20)]
    rows = [one.split()[0] for one in shown(write(tmp_path, *ranks)).splitlines() if "distributedInfo" in one]
    assert (len(rows), rows[-1]) == (MOST_ROWS, "19")


def test_missing_and_double_ranks_are_said(tmp_path: Path) -> None:
    text = shown(write(tmp_path, rank(0, 5), rank(3, 5), rank(3, 5)))
    assert line(text, "missing").endswith("no trace of rank 1-2, 4")
    assert "more than one trace claims rank 3" in line(text, "doubles")


def test_problems_are_listed_worst_first_with_example_and_place(tmp_path: Path) -> None:
    bad = (op("backwards", 5, -3), {"ph": "Z", "name": "x"})
    text = shown(write(tmp_path, rank(0, extra=bad), rank(1)))
    effects = [one.split()[0] for one in text.split("problems\n")[1].splitlines()]
    assert effects == ["dropped", "noted"]
    assert "events that end before they begin" in text
    assert "(rank 0)" in text
    assert "e.g. backwards" in text


def test_files_that_cannot_be_read_are_listed(tmp_path: Path) -> None:
    text = shown(write(tmp_path, rank(0), b"rubbish"))
    assert "unread" in text
    assert "rank-1.json: not JSON" in text


def test_clocks_that_do_not_fit_are_cried_out(tmp_path: Path) -> None:
    dice = random.Random(0)
    ranks = [
        document(
            [op("a", 0, 5), *(collective(1e5 * one + dice.uniform(0, 4e4), 5) for one in range(30))],
            rank=number,
            world_size=2,
        )
        for number in (0, 1)
    ]
    assert "TOO LARGE" in line(shown(write(tmp_path, *ranks)), "clocks")


def test_ranks_without_a_shared_collective_are_named(tmp_path: Path) -> None:
    alone = document([op("a", 0, 5)], rank=2, world_size=3)
    text = shown(write(tmp_path, rank(0, 3), rank(1, 3), alone))
    assert "rank 2" in line(text, "clocks")


def test_one_rank_has_nothing_to_align(tmp_path: Path) -> None:
    assert "one rank" in line(shown(write(tmp_path, rank(0, 1))), "clocks")


def test_device_work_without_a_launch_is_kept_and_said(tmp_path: Path) -> None:
    text = shown(write(tmp_path, document([op("a", 0, 5), kernel("k", 10, 5, correlation=9)])))
    assert "0 of 1 pieces of device work have their launch" in line(text, "coverage")
    assert "(5.000 us)" in line(text, "coverage")


def test_graph_launches_are_said(tmp_path: Path) -> None:
    events = [
        launch(0, correlation=3, name="cudaGraphLaunch"),
        *(kernel(f"k{n}", 10 * n, 5, correlation=3) for n in (1, 2)),
    ]
    assert "2 came from 1 " in line(shown(write(tmp_path, document(events))), "coverage")


def test_synthetic_traces_are_labelled(tmp_path: Path) -> None:
    text = shown(write(tmp_path, document([op("a", 0, 5)], synthetic="somebody")))
    assert "(synthetic, not a measurement)" in text.splitlines()[0]


def test_a_trace_of_nothing_has_a_report(tmp_path: Path) -> None:
    text = shown(write(tmp_path, document([])))
    assert "the trace holds metadata but no timed events" in text


def test_nothing_from_a_trace_can_harm_a_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;pwned\x07\x9b2J\u202e\n\r"
    events = [
        region(f"ProfilerStep{evil}", 0, 100),
        {**op("a", 0, 5), "cat": f"cpu_op{evil}"},
        kernel(f"k{evil}", 0, 5),
        op(f"backwards{evil}", 5, -3),
    ]
    data = document(
        events,
        deviceProperties=[{"id": 0, "name": f"GPU{evil}"}],
        cuda_runtime_version=evil,
        synthetic=evil,
        host_name=evil,
    )
    text = shown(write(tmp_path, data, b"<" + evil.encode()))
    assert not set(text) & set("\x1b\x07\x9b\u202e\r")
    assert all(len(one) < 400 for one in text.splitlines())


# The JSON of `inspect`: every key is a promise, and so is every type.

KEYS = {
    "": {
        "kind": str,
        "schema_version": int,
        "made_by": str,
        "synthetic": bool,
        "redline_version": str,
        "world_size": int,
        "missing_ranks": list,
        "double_ranks": list,
        "jobs": int,
        "clocks": dict,
        "ranks": list,
        "failures": list,
    },
    "clocks": {"aligned_on_collectives": int, "worst_residual_ns": int, "trusted": bool, "ranks_alone": list},
    "ranks": {
        "rank": int,
        "rank_origin": str,
        "altered": list,
        "path": str,
        "member": str,
        "devices": list,
        "backend": str,
        "versions": dict,
        "recorded": list,
        "start_unix_ns": int,
        "window_ns": int,
        "device_busy_ns": int,
        "communication_ns": int,
        "step_anchor": str,
        "step_ns": list,
        "spans_by_kind": dict,
        "events_in_file": dict,
        "unused_in_file": dict,
        "inflated_bytes": int,
        "clock_offset_ns": int,
        "clock_residual_ns": int,
        "coverage": dict,
        "problems": list,
    },
    "coverage": {
        "device_work": int,
        "device_work_ns": int,
        "with_launch": int,
        "with_launch_ns": int,
        "with_operator": int,
        "with_operator_ns": int,
        "graph_launches": int,
        "from_graphs": int,
    },
    "problems": {"reason": str, "effect": str, "count": int, "first_offset": int, "example": str},
    "failures": {"path": str, "message": str},
}


@pytest.fixture
def record(tmp_path: Path) -> dict[str, Any]:
    """Two ranks of three, one with damage, and one file that is no trace."""
    for rank in (0, 1):
        events = [
            region("ProfilerStep#1", 0, 100),
            op("aten::mm", 5, 20),
            launch(10, correlation=1),
            kernel("gemm", 30, 10, correlation=1),
            collective(60 + rank, 20),
            *([{}] if rank else []),
        ]
        (tmp_path / f"rank-{rank}.json").write_bytes(
            document(
                events,
                rank=rank,
                world_size=3,
                deviceProperties=[{"id": 0, "name": "NVIDIA H100"}],
                record_shapes=1,
                cuda_runtime_version=12040,
                baseTimeNanoseconds=10**18,
            )
        )
    (tmp_path / "rank-2.json").write_bytes(b"rubbish")
    found: dict[str, Any] = json.loads(json_text(report.record(inspect([tmp_path]))))
    return found


def typed(record: dict[str, Any]) -> dict[str, type]:
    return {key: type(value) for key, value in record.items()}


def test_the_keys_are_frozen(record: dict[str, Any]) -> None:
    """A key that vanishes or changes its type breaks somebody's script; raise the version when one must."""
    assert typed(record) == KEYS[""]
    assert typed(record["clocks"]) == KEYS["clocks"]
    assert typed(record["failures"][0]) == KEYS["failures"]
    for rank in record["ranks"]:
        assert typed(rank) == KEYS["ranks"]
        assert typed(rank["coverage"]) == KEYS["coverage"]
        for problem in rank["problems"]:
            assert typed(problem) == KEYS["problems"]


def test_the_record_has_our_envelope(record: dict[str, Any]) -> None:
    envelope = check_envelope(record, "inspection", 1)
    assert (envelope.kind, envelope.made_by, envelope.synthetic) == ("inspection", "redline inspect", False)


def test_what_is_said_of_the_job(record: dict[str, Any]) -> None:
    assert (record["world_size"], record["missing_ranks"], record["double_ranks"]) == (3, [2], [])
    assert record["clocks"] == {
        "aligned_on_collectives": 1,
        "worst_residual_ns": 0,
        "trusted": True,
        "ranks_alone": [],
    }
    assert record["failures"][0]["path"].endswith("rank-2.json")


def test_what_is_said_of_a_rank(record: dict[str, Any]) -> None:
    rank = record["ranks"][1]
    assert (rank["rank"], rank["rank_origin"], rank["member"]) == (1, "distributedInfo", "")
    assert (rank["devices"], rank["recorded"], rank["backend"]) == (["NVIDIA H100"], ["shapes"], "nccl")
    assert rank["versions"]["cuda_runtime_version"] == "12040"
    assert (rank["start_unix_ns"], rank["window_ns"]) == (10**18, 100_000)
    assert (rank["device_busy_ns"], rank["communication_ns"]) == (30_000, 20_000)
    assert (rank["step_anchor"], rank["step_ns"]) == ("ProfilerStep", [100_000])
    assert rank["spans_by_kind"] == {"annotation": 1, "operator": 1, "runtime": 1, "kernel": 1, "communication": 1}
    assert rank["clock_offset_ns"] - record["ranks"][0]["clock_offset_ns"] == 1_000
    assert rank["coverage"]["device_work"] == 2
    assert [(problem["reason"], problem["count"]) for problem in rank["problems"]] == [("empty-event", 1)]


def test_synthetic_traces_make_a_synthetic_record(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(document([op("a", 0, 5)], synthetic="somebody"))
    assert report.record(inspect([tmp_path]))["synthetic"] is True


def test_names_keep_their_letters(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(document([kernel("k", 0, 5)], deviceProperties=[{"id": 0, "name": "加速卡"}]))
    assert "加速卡" in json_text(report.record(inspect([tmp_path])))
