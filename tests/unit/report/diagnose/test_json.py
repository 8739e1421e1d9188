"""The JSON of `diagnose`: every key is a promise, integers stay integers, and its accounts add up."""

import json
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

import pytest

from redline.artifacts import check_envelope
from redline.job.read_failures import Failure
from redline.ledger.accounts import ACCOUNTS
from redline.report.data import code
from redline.report.diagnose import json as diagnose_json
from redline.report.language import speaking
from redline.verbs.diagnose import diagnose
from tests.support.events import document, kernel, launch, op
from tests.support.made_findings import findings
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

ACCOUNT_NAMES = {
    "math",
    "memory",
    "kernel_loss",
    "unrated_compute",
    "transfer",
    "peer_wait",
    "copy",
    "input",
    "sync",
    "host",
    "queue",
    "other",
}
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
        "verdict": dict,
        "findings": list,
        "remarks": list,
        "praise": list,
        "steps": dict,
        "waterfall": list,
        "phases": list,
        "largest": list,
        "utilisation": dict,
        "unseen": list,
        "exposed_communication_ns": int,
        "unmatched_communication_ns": int,
        "ranks": list,
        "lateness": dict,
        "kernels": list,
        "collectives": list,
        "doing": list,
        "failures": list,
        "memory": NoneType,
        "serving": NoneType,
        "replay": NoneType,
        "captured": NoneType,
        "redacted": NoneType,
    },
    "ranks": {
        "rank": int,
        "rank_origin": str,
        "source": str,
        "host": str,
        "backend": str,
        "world_size": int,
        "recorded": list,
        "versions": dict,
        "synthetic": str,
        "predicted": bool,
        "altered": list,
        "step_anchor": str,
        "dropped": dict,
        "kind": int,
        "start_unix_ns": int,
        "window_ns": int,
        "clock_offset_ns": int,
        "clock_residual_ns": int,
        "facts": dict,
        "arithmetic": list,
        "steps": list,
        "outside": dict,
        "left_out": dict,
    },
    "verdict": {
        "limit": str,
        "limit_share": float,
        "kernel_share": float,
        "judged_idle_share": float,
        "copy_share": float,
        "exposed_share": float,
        "idle_share": float,
        "unjudged_share": float,
        "starved_share": float,
        "math_share": float,
        "rated_share": float,
        "roof_share": float,
        "worthwhile": bool,
        "healthy": bool,
        "first": str,
        "phases": dict,
        "text": str,
    },
    "findings": {
        "code": str,
        "title": str,
        "numerics": str,
        "grade": str,
        "step_ns": float,
        "bound_ns": float,
        "alone_ns": float,
        "steady_share": float,
        "accounts": dict,
        "ranks": int,
        "places": list,
        "evidence": list,
        "fix": list,
        "of_window": bool,
        "forecast": NoneType,
        "share": float,
        "alone_share": float,
        "speedup": float,
    },
    "praise": {"message": str, "values": dict, "bearing": str, "text": str},
    "ranks.steps": {"label": str, "phase": str, "start_ns": int, "length_ns": int, "accounts": dict},
    "waterfall": {"account": str, "time_ns": float, "before_ns": float, "share": float},
    "phases": {
        "phase": str,
        "time_ns": float,
        "share": float,
        "device_ns": float,
        "host_ns": float,
        "waiting_ns": float,
    },
    "unseen": {"what": str, "ranks": int, "count": int, "time_ns": int, "share": float, "detail": str},
    "failures": {"path": str, "message": str},
}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("job")
    write_job(JobSpec(ranks=2, steps=2, layers=2, stragglers=(Straggler(rank=1, extra_us=500),)), folder)
    found = diagnose([folder])
    failures = (Failure(path="a.json", message="a.json: broken"),)
    text = diagnose_json.render(replace(found, findings=findings(2), failures=failures))
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def typed(record: dict[str, Any]) -> dict[str, type]:
    return {key: type(value) for key, value in record.items()}


def test_the_keys_are_frozen(record: dict[str, Any]) -> None:
    """A key that vanishes or changes its type breaks somebody's script; raise SCHEMA_VERSION when one must."""
    assert typed(record) == KEYS[""]
    for rank in record["ranks"]:
        assert typed(rank) == KEYS["ranks"]
        assert all(typed(step) == KEYS["ranks.steps"] for step in rank["steps"])
    for name in ("waterfall", "phases", "unseen", "failures", "findings", "praise"):
        assert record[name]
        assert all(typed(one) == KEYS[name] for one in record[name])
    assert typed(record["verdict"]) == KEYS["verdict"]
    assert all(typed(one) == KEYS["findings"] for one in record["remarks"])
    assert diagnose_json.SCHEMA_VERSION == 1


def test_the_record_has_our_envelope(record: dict[str, Any]) -> None:
    envelope = check_envelope(record, diagnose_json.KIND, diagnose_json.SCHEMA_VERSION)
    assert (envelope.kind, envelope.made_by, envelope.synthetic) == ("diagnosis", "redline diagnose", True)


def test_accounts_add_up_to_the_nanosecond(record: dict[str, Any]) -> None:
    for rank in record["ranks"]:
        total_ns = sum(rank["outside"].values())
        for step in rank["steps"]:
            assert set(step["accounts"]) == ACCOUNT_NAMES
            assert all(type(amount) is int for amount in step["accounts"].values())
            assert sum(step["accounts"].values()) == step["length_ns"]
            total_ns += step["length_ns"]
        assert total_ns == rank["window_ns"]


def test_the_waterfall_has_every_account_in_order(record: dict[str, Any]) -> None:
    assert [bar["account"] for bar in record["waterfall"]] == [code(one) for one in ACCOUNTS]
    assert sum(bar["share"] for bar in record["waterfall"]) == pytest.approx(1)
    assert record["largest"][0] in ACCOUNT_NAMES


def test_findings_are_in_english_whatever_is_spoken(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(document([op("aten::mm", 0, 5)]))
    found = diagnose([tmp_path])
    with speaking("zh"):
        record = diagnose_json.as_record(replace(found, findings=findings()))
    (finding,) = record["findings"]
    assert finding["title"] == "Replay the launches of a step as a CUDA graph"
    assert finding["evidence"][0]["text"] == "The device waits 4.000 ms for a|b."
    assert (finding["share"], finding["numerics"], finding["grade"]) == (0.4, "bitwise", "measured")
    assert record["verdict"]["text"].startswith("Overhead-bound")
    assert record["praise"][0]["text"] == "Well done: 99.0 % busy."


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    events = [op("mine", 0, 9), launch(2, correlation=1), kernel("mystery", 20, 5, correlation=1)]
    (tmp_path / "a.json").write_bytes(document(events))
    found = diagnose([tmp_path])
    record = json.loads(diagnose_json.render(found))
    assert (record["utilisation"], record["lateness"]) == (None, None)
    (row,) = record["kernels"]
    assert (row["math_ns"], row["memory_ns"], row["share_of_roof"], row["regime"]) == (None, None, None, "unknown")


def test_above_roof_has_no_share(tmp_path: Path) -> None:
    shapes: dict[str, Any] = {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["float", "float"]}
    events = [op("aten::mm", 0, 9, **shapes), launch(2, correlation=1), kernel("gemm", 20, 1, correlation=1)]
    (tmp_path / "a.json").write_bytes(document(events, deviceProperties=[{"id": 0, "name": "NVIDIA H20"}]))
    found = diagnose([tmp_path])
    (row,) = json.loads(diagnose_json.render(found))["kernels"]
    assert (row["share_of_roof"], row["regime"], row["above"]) == (None, "above_roof", 1)


def test_names_keep_their_letters(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(document([kernel("核函数", 0, 5)]))
    found = diagnose([tmp_path])
    assert "核函数" in diagnose_json.render(found)


def test_missing_labels_of_steps_are_empty(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(document([op("aten::mm", 0, 5)]))
    found = diagnose([tmp_path])
    rank = found.diagnosis.ranks[0]
    unlabelled = replace(rank, origin=replace(rank.origin, step_labels=()))
    record = diagnose_json.as_record(replace(found, diagnosis=replace(found.diagnosis, ranks=(unlabelled,))))
    assert [step["label"] for step in record["ranks"][0]["steps"]] == [""]
