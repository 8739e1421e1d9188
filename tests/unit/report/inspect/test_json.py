"""The JSON of `inspect`: every key is a promise, and so is every type."""

import json
from pathlib import Path
from typing import Any

import pytest

from redline.artifacts import check_envelope
from redline.report import inspect as report
from redline.report.data import json_text
from redline.verbs.inspect import inspect
from tests.support.events import collective, document, kernel, launch, op, region

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
