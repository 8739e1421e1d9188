"""The rules by which torch checks its own traces, each broken once; and where torch has them, its word on real ones."""

import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from redline.timeline.problems import Reason
from redline.trace.reader import read_file
from tests.support.real_traces import RealTraces

RULES = {
    "_check_gpu_kernel_causality": Reason.KERNEL_BEFORE_LAUNCH,
    "_check_stream_wait_corr_id_populated": Reason.WAIT_WITHOUT_RECORD,
    "_check_stream_sync_overlap": Reason.SYNC_DURING_KERNEL,
    "_check_stream_wait_corr_id_in_past": Reason.WAIT_FOR_UNSEEN_RECORD,
    "_check_nccl_metadata": Reason.UNDESCRIBED_COLLECTIVE,
    "_check_backward_seq_id_uniqueness": Reason.SHARED_SEQUENCE,
}
TRACES = (
    "hta_event_sync_multistream.json.gz",
    "hta_sampled_rank-0.json.gz",
    "hta_simple_add_cp.json.gz",
    "hta_tracediff_control.json.gz",
    "kineto_after_fix_trace.json.gz",
    "kineto_before_fix_trace.json.gz",
    "sam_amg_True_4be6279a.json.gz",
)
Event = dict[str, Any]


def on_host(category: str, name: str, at: float, us: float, **args: Any) -> Event:
    return {"ph": "X", "cat": category, "name": name, "pid": 100, "tid": 1, "ts": at, "dur": us, "args": args}


def on_device(category: str, name: str, at: float, us: float, **args: Any) -> Event:
    shared = {"device": 0, "stream": 7, **args}
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": at, "dur": us, "args": shared}


def wait(kind: str, at: float, record: int | None) -> Event:
    said = {} if record is None else {"wait_on_cuda_event_record_corr_id": record}
    return on_device("cuda_sync", kind, at, 5, cuda_sync_kind=kind, correlation=90, **said)


def sound() -> list[Event]:
    """A trace that keeps all six rules."""
    described = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 8, "Out msg nelems": 8}
    node = "autograd::engine::evaluate_function: MulBackward0"
    return [
        on_host("cpu_op", "aten::mm", 0, 50, **{"External id": 1}),
        on_host("cuda_runtime", "cudaLaunchKernel", 5, 5, **{"External id": 1, "correlation": 1}),
        on_device("kernel", "gemm", 20, 30, **{"External id": 1, "correlation": 1}),
        on_host("cuda_runtime", "cudaEventRecord", 15, 2, correlation=2),
        wait("Stream Wait Event", 60, 2),
        wait("Event Sync", 62, 2),
        wait("Stream Sync", 70, None),
        on_host("cpu_op", "record_param_comms", 80, 5, **described, **{"Group size": 2}),
        on_host("cpu_op", node, 90, 5, **{"Sequence number": 3}),
        on_host("cpu_op", node, 96, 2, **{"Sequence number": 3}),
    ]


BROKEN: dict[Reason, Event] = {
    Reason.KERNEL_BEFORE_LAUNCH: on_host(
        "cuda_runtime", "cudaLaunchKernel", 25, 2, **{"External id": 5, "correlation": 5}
    ),
    Reason.WAIT_WITHOUT_RECORD: wait("Event Sync", 64, -1),
    Reason.SYNC_DURING_KERNEL: wait("Stream Sync", 40, None),
    Reason.WAIT_FOR_UNSEEN_RECORD: wait("Stream Wait Event", 10, 2),
    Reason.UNDESCRIBED_COLLECTIVE: on_host("cpu_op", "record_param_comms", 86, 2, **{"Collective name": "broadcast"}),
    Reason.SHARED_SEQUENCE: on_host(
        "cpu_op", "autograd::engine::evaluate_function: AddBackward0", 99, 2, **{"Sequence number": 3}
    ),
}


def by_us(path: Path) -> Counter[Reason]:
    return Counter(
        {
            problem.reason: problem.count
            for timeline in read_file(path).timelines
            for problem in timeline.source.problems
            if problem.reason in RULES.values()
        }
    )


def by_torch(path: Path) -> Counter[Reason]:
    if importlib.util.find_spec("torch.profiler._trace_validator") is None:
        pytest.skip("this torch does not check traces")
    from torch.profiler._trace_validator import validate_trace

    _, violations = validate_trace(str(path))
    return Counter(RULES[violation.rule_name] for violation in violations)


def test_a_sound_trace_breaks_no_rule(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": sound()}))
    assert by_us(path) == by_torch(path) == {}


@pytest.mark.parametrize("reason", BROKEN, ids=lambda reason: reason.code)
def test_each_rule_is_seen_to_be_broken(tmp_path: Path, reason: Reason) -> None:
    path = tmp_path / "t.json"
    early = on_device("kernel", "early", 19, 0.5, **{"External id": 5, "correlation": 5})
    also = [early] if reason is Reason.KERNEL_BEFORE_LAUNCH else []
    path.write_text(json.dumps({"traceEvents": [*sound(), BROKEN[reason], *also]}))
    assert by_us(path) == by_torch(path) == {reason: 1}


@pytest.mark.parametrize("name", TRACES)
def test_real_traces_break_the_rules_that_torch_says(traces: RealTraces, name: str) -> None:
    path = traces / name
    assert by_us(path) == by_torch(path)
