"""The recorder of real CPU traces works with the installed torch and leaves nothing of this machine in its files."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.promises import needs_torch

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "record_cpu_traces.py"
COMMITTED = sorted((ROOT / "tests" / "data" / "recorded").glob("*.pt.trace.json.gz"))


def record(folder: Path, name: str) -> None:
    command = [sys.executable, str(SCRIPT), str(folder), name]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert finished.returncode == 0, finished.stderr


def load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return document


def annotations(document: dict[str, Any]) -> list[str]:
    return [event["name"] for event in document["traceEvents"] if event.get("cat") == "user_annotation"]


@needs_torch
def test_plain_loop_has_steps_loader_optimizer_and_stacks(tmp_path: Path) -> None:
    record(tmp_path, "plain_loop")
    document = load(tmp_path / "plain_loop.pt.trace.json.gz")
    names = annotations(document)
    assert [name for name in names if name.startswith("ProfilerStep#")] == [
        f"ProfilerStep#{step}" for step in (2, 3, 4)
    ]
    assert names.count("Optimizer.step#SGD.step") == 3
    assert names.count("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__") == 3
    assert any(event.get("cat") == "python_function" for event in document["traceEvents"])
    assert document["traceName"] == "plain_loop.pt.trace.json"
    assert "host_name" not in document


@needs_torch
def test_ddp_writes_a_file_per_rank_with_matching_collectives(tmp_path: Path) -> None:
    record(tmp_path, "ddp")
    messages = []
    for rank in (0, 1):
        document = load(tmp_path / f"ddp_rank{rank}.pt.trace.json.gz")
        assert document["distributedInfo"]["rank"] == rank
        assert document["distributedInfo"]["world_size"] == 2
        assert annotations(document).count("DistributedDataParallel.forward") == 3
        calls = [event for event in document["traceEvents"] if event["name"] == "c10d::allreduce_"]
        messages.append([event["args"]["Input Dims"] for event in sorted(calls, key=lambda event: event["ts"])])
        assert annotations(document).count("gloo:all_reduce") == len(calls)
    assert messages[0] == messages[1]
    assert len(messages[0]) >= 3


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_committed_recordings_are_small_valid_and_anonymous(path: Path) -> None:
    assert path.stat().st_size <= 64_000
    document = load(path)
    assert document["traceName"] == path.name.removesuffix(".gz")
    assert "host_name" not in document
    names = {str(event["name"]) for event in document["traceEvents"]}
    assert not [name for name in names if name.startswith("/") or "site-packages" in name]


def test_all_recordings_are_committed() -> None:
    expected = ["accumulate", "compiled", "ddp_rank0", "ddp_rank1", "inference", "plain_loop"]
    expected += ["slow_loader_rank0", "slow_loader_rank1"]
    assert [path.name for path in COMMITTED] == [f"{name}.pt.trace.json.gz" for name in expected]
