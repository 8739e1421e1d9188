"""Smallest fixes are filled with what was seen; where that is not enough, the page has a pattern."""

from typing import Any

import pytest

from redline.findings.evidence import Evidence
from redline.report.diagnose.finding_messages import sentence
from tests.support.events import Event, document, op, span
from tests.support.rules.communication import alike, base, exchanged
from tests.support.rules.host import call, later_step, optimizer, updates
from tests.support.rules.host import compiled as compiled_calls
from tests.support.rules.host_record import BASE_NS, counters
from tests.support.rules.input import ALONE, WORKERS, loading_for
from tests.support.rules.kernels import MASK, PV, QK, SOFTMAX
from tests.support.rules.matching import calls, found, step


def said(fix: Evidence | None) -> str:
    return sentence(fix) if fix is not None else ""


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("SGD", "SGD(..., fused=True)"),
        ("RMSprop", "RMSprop(..., foreach=True)"),
        ("Muon", "torch.compile(optimizer.step)"),
    ],
)
def test_the_optimizer_is_the_one_that_was_seen(kind: str, advice: str) -> None:
    data = document(optimizer(kind, *updates("vectorized_elementwise_kernel", 40)))
    fix = said(found(data)["RL-H07"].fix)
    assert advice in fix
    assert kind in fix
    assert "lr=" not in fix


def evidence(workers: int, cores: int) -> dict[str, Any]:
    loader = {"workers": workers, "batch_size": 8, "dataset": "TokenDataset"}
    return {"version": 1, "machine": {"cores_allowed": cores}, "facts": {"loaders": [loader]}}


@pytest.mark.parametrize(
    ("loader", "code", "workers", "cores", "advice"),
    [
        pytest.param(ALONE, "RL-D01", 0, 16, "num_workers=4, persistent_workers=True, pin_memory=True", id="GPU"),
        pytest.param(ALONE, "RL-D01", 0, 2, "num_workers=1,", id="two cores"),
        pytest.param(ALONE, "RL-D01", 0, 1, "No core is left", id="one core"),
        pytest.param(WORKERS, "RL-D02", 2, 16, "num_workers=4,", id="twice as many"),
        pytest.param(WORKERS, "RL-D02", 3, 4, "No core is left", id="all cores taken"),
    ],
)
def test_workers_are_as_many_as_there_are_cores_for(
    loader: str, code: str, workers: int, cores: int, advice: str
) -> None:
    data = document(loading_for(100, loader), redline=evidence(workers, cores))
    fix = said(found(data)[code].fix)
    assert advice in fix
    assert "batch_size" not in fix


@pytest.mark.parametrize(("busy", "advice"), [(0.3, "num_workers=1,"), (0.9, "No core is left")])
def test_a_process_that_waits_for_storage_leaves_its_core_to_a_worker(busy: float, advice: str) -> None:
    known = evidence(0, 1) | {"steps": counters((0, 1000), cpu=[1000 * busy], waited=[0])}
    data = document(loading_for(100, ALONE), baseTimeNanoseconds=BASE_NS, redline=known)
    assert advice in said(found(data)["RL-D01"].fix)


def test_a_job_on_a_cpu_pins_nothing() -> None:
    on_cpu = [event for event in loading_for(100, ALONE) if event["cat"] in ("user_annotation", "cpu_op")]
    data = document([*on_cpu, op("aten::mm", 105, 500)], redline=evidence(0, 2))
    fix = said(found(data)["RL-D01"].fix)
    assert "TokenDataset" in fix
    assert "num_workers=1" in fix
    assert "pin_memory" not in fix


def test_without_facts_the_page_has_a_pattern() -> None:
    assert found(document(loading_for(100, ALONE)))["RL-D01"].fix is None


@pytest.mark.parametrize("is_training", [True, False])
def test_a_job_that_only_runs_a_model_is_not_said_to_train(is_training: bool) -> None:
    events = loading_for(100, ALONE)
    if is_training:
        events.append(span("cpu_op", "MmBackward0", 700, 10, args={"Fwd thread id": 1}))
    first = found(document(events))["RL-D01"].evidence[0].message
    assert ("training process" in first) == is_training


@pytest.mark.parametrize(
    ("operators", "advice"),
    [
        pytest.param((QK, SOFTMAX, PV), "scaled_dot_product_attention(q, k, v) of", id="no mask"),
        pytest.param((QK, MASK, SOFTMAX, PV), "attn_mask=mask) of torch.nn.functional", id="a mask"),
    ],
)
def test_attention_keeps_the_mask_that_it_has(operators: Any, advice: str) -> None:
    fix = said(found(document(calls(*operators)))["RL-C07"].fix)
    assert advice in fix
    assert "is_causal" not in fix


def test_an_allocator_that_is_off_is_not_tuned() -> None:
    def frees(number: int) -> list[Event]:
        return [call("cudaFree", 805 + 0.5 * one, 0.4) for one in range(number)]

    later = [call("cudaFree", 1110 + 5 * one, 4) for one in range(60)]
    off = found(document([*later_step(*later), *frees(60)]))["RL-M01"]
    assert "unset PYTORCH_NO_CUDA_MEMORY_CACHING" in said(off.fix)
    assert found(document([*later_step(*later), *frees(3)]))["RL-M01"].fix is None


@pytest.mark.parametrize(
    ("number", "elements", "is_filled"), [(40, 1000, True), (40, 1 << 20, False), (4, 1000, False)]
)
def test_tiny_all_reduces_are_joined_and_not_bucketed(number: int, elements: int, is_filled: bool) -> None:
    sent = [
        event
        for one in range(number)
        for event in exchanged(610 + 8 * one, 300 / number, 10 + one, at=450 + one, elements=elements)
    ]
    finding = found(*alike([*base(), *sent]))["RL-N01"]
    assert ("flatten all gradients" in said(finding.fix)) == is_filled


def compiled(**facts: Any) -> dict[str, Any]:
    return {"version": 1, "facts": {"compile": facts}}


def test_a_graph_break_is_named_with_its_reason_and_place() -> None:
    events = [step(0, 0, 1000), *compiled_calls(390), op("aten::mm", 500, 100)]
    known = compiled(graphs=3, breaks=[["Dynamo does not support `item`", 3]], places=[["forward:21", 4]])
    finding = found(document(events, redline=known))["RL-H10"]
    assert [one.values for one in finding.evidence[1:]] == [
        {"reason": "Dynamo does not support `item`"},
        {"place": "forward:21"},
    ]
    assert "forward:21" in said(finding.fix)
    assert found(document(events))["RL-H10"].fix is None


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("forward: tensor 'x' size mismatch at index 0. expected 3, actual 4", "mark_dynamic"),
        ("forward: self.calls == 0", "pass it as a tensor"),
        ("forward: something else", ""),
        ("", ""),
    ],
)
def test_a_recompilation_is_named_with_its_guard(reason: str, advice: str) -> None:
    compiling = op("_compile.compile_inner (dynamo_timed)", 1100, 300)
    events = [step(0, 0, 1000), op("aten::mm", 10, 20), step(1, 1000, 1000), compiling]
    recompiles = [[reason, 7]] if reason else []
    finding = found(document(events, redline=compiled(graphs=8, recompiles=recompiles)))["RL-H11"]
    assert (finding.evidence[-1].values.get("reason", "")) == reason
    assert advice in said(finding.fix)
    assert bool(said(finding.fix)) == bool(advice)
