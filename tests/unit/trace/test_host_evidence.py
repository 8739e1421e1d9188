"""What `redline run` recorded about the host is read on the clock of the timeline; rubbish in it is counted."""

from pathlib import Path

import numpy as np
import pytest

from redline.timeline.host_evidence import CalledModel, HostEvidence, MachineShare, OptimizerFacts, ThreadTime
from redline.timeline.problems import Reason
from redline.timeline.timeline import Timeline
from redline.trace import store
from tests.support.events import document, op, read_one
from tests.support.host_evidence import BASE_NS, record


def read(folder: Path, evidence: object) -> Timeline:
    """A trace whose first operator begins 5 us after the base time of the file."""
    return read_one(document([op("a", 5, 80)], baseTimeNanoseconds=BASE_NS, redline=evidence), folder)


def problems(timeline: Timeline) -> list[Reason]:
    return [problem.reason for problem in timeline.source.problems]


def test_all_parts_are_read_on_the_clock_of_the_timeline(tmp_path: Path) -> None:
    timeline = read(tmp_path, record())
    evidence = timeline.evidence
    assert not problems(timeline)
    assert evidence.steps.begin_ns.tolist() == [5_000, 45_000]
    assert evidence.steps.run_queue_ns.tolist() == [5_000, 15_000]
    assert evidence.threads == (
        ThreadTime(name="MainThread", tid=7, cpu_ns=50_000, run_queue_ns=20_000, training=True),
    )
    assert evidence.machine == MachineShare(cores_allowed=2, cores=8, throttled_ns=0, running=3.5)
    assert evidence.collections is not None
    assert evidence.collections.begin_ns.tolist() == [15_000]
    assert evidence.samples.time_ns.tolist() == [25_000]
    assert evidence.stacks == (("train.py:3 step",),)
    assert evidence.calls.table.time_ns.tolist() == [5_000, 45_000]
    assert evidence.calls.models == (CalledModel(kind="UNet", denoises=True),)
    assert evidence.calls.inputs == ((0, 1), (2, 1))
    assert evidence.sample_rate_hz == 100
    assert evidence.facts.optimizers == (OptimizerFacts(kind="AdamW", parameters=148),)


def test_it_survives_the_cache(tmp_path: Path) -> None:
    timeline = read(tmp_path, record())
    (found,) = store.unpacked(memoryview(b"".join(store.packed((timeline,)))))
    for one, expected in ((found.evidence.steps, timeline.evidence.steps),):
        for name, values in expected.columns().items():
            assert np.array_equal(one.columns()[name], values)
    assert found.evidence.threads == timeline.evidence.threads
    assert found.evidence.facts == timeline.evidence.facts
    assert found.evidence.stacks == timeline.evidence.stacks
    assert found.evidence.collections is not None


def test_a_trace_of_another_tool_has_none(tmp_path: Path) -> None:
    for other in ({"kind": "predicted-trace"}, "text", None):
        timeline = read(tmp_path, other)
        assert not problems(timeline)
        assert not len(timeline.evidence.steps)
        assert timeline.evidence.collections is None
        assert timeline.evidence.machine == HostEvidence().machine


def test_a_column_that_the_system_does_not_count_is_unknown(tmp_path: Path) -> None:
    evidence = record()
    del evidence["steps"]["run_queue_ns"]
    timeline = read(tmp_path, evidence)
    assert not problems(timeline)
    assert timeline.evidence.steps.run_queue_ns.tolist() == [-1, -1]


RUBBISH = [
    ("steps", 3),
    ("steps", {"begin_ns": [1]}),
    ("steps", {"begin_ns": [BASE_NS], "end_ns": [BASE_NS, BASE_NS]}),
    ("steps", {"begin_ns": [BASE_NS + 5], "end_ns": [BASE_NS]}),
    ("steps", {"begin_ns": [2**70], "end_ns": [2**70]}),
    ("steps", {"begin_ns": [True], "end_ns": ["x"]}),
    ("steps", {"begin_ns": [2**62 + 5], "end_ns": [2**62 + 6]}),
    ("threads", [{"name": "a"}]),
    ("threads", [{"name": "a", "tid": 1, "cpu_ns": 2**80}]),
    ("machine", {"cores_allowed": "two"}),
    ("collections", {"begin_ns": [BASE_NS], "dur_ns": [-1]}),
    ("samples", {"time_ns": [BASE_NS], "stack": [1], "stacks": [["a"]]}),
    ("samples", {"time_ns": [BASE_NS], "stack": [0], "stacks": "abc"}),
    ("facts", []),
    ("calls", {"time_ns": [BASE_NS], "model": [0], "models": [], "inputs": [[]], "shapes": []}),
    ("calls", {"time_ns": [BASE_NS], "model": [0], "models": [{"kind": "A"}], "inputs": [], "shapes": []}),
    ("calls", {"time_ns": [BASE_NS], "model": [0], "models": [{"kind": "A"}], "inputs": [[1]], "shapes": ["x"]}),
    ("facts", {"optimizers": [{"kind": 3}]}),
    ("facts", {"compile": {"breaks": [["reason"]]}}),
]


@pytest.mark.parametrize(("part", "value"), RUBBISH)
def test_rubbish_is_counted_and_takes_nothing_else_with_it(part: str, value: object, tmp_path: Path) -> None:
    timeline = read(tmp_path, {**record(), part: value})
    assert problems(timeline) == [Reason.BAD_HOST_EVIDENCE]
    assert len(timeline.spans) == 1
    assert part == "machine" or timeline.evidence.machine.cores == 8
    store.unpacked(memoryview(b"".join(store.packed((timeline,)))))


def test_a_fact_that_is_wrong_takes_no_other_with_it(tmp_path: Path) -> None:
    evidence = record()
    evidence["facts"]["loaders"] = [{"workers": "many"}]
    timeline = read(tmp_path, evidence)
    assert problems(timeline) == [Reason.BAD_HOST_EVIDENCE]
    assert timeline.evidence.facts.optimizers
    assert not timeline.evidence.facts.loaders


def test_secrets_in_names_are_masked(tmp_path: Path) -> None:
    evidence = record()
    evidence["threads"][0]["name"] = "upload --token=hf_ABCDEFGHIJKLMNOPQRST \ud800"
    timeline = read(tmp_path, evidence)
    assert "ABCDEFGH" not in timeline.evidence.threads[0].name
    timeline.evidence.threads[0].name.encode()
