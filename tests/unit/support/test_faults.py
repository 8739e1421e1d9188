"""Planted causes: each makes the step longer by itself, and leaves the marks that a real one leaves."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.support.traces.faults import Faults
from tests.support.traces.program import unit_us
from tests.support.traces.synthetic import JobSpec, Straggler, rank_text, simulate_job, truth_of

ALONE = JobSpec(ranks=1, steps=2, layers=4, step_compute_us=4_000, launch_us=6)
PAIR = JobSpec(ranks=2, steps=2, layers=4, step_compute_us=4_000, buckets=2, collective_bytes=128 << 20)

FAULTS = {
    "item_reads": (ALONE, Faults(item_reads=20), "aten::item"),
    "device_syncs": (ALONE, Faults(device_syncs=40), "cudaDeviceSynchronize"),
    "small_copies": (ALONE, Faults(small_copies=20), "Memcpy HtoD (Pageable -> Device)"),
    "allocations": (ALONE, Faults(allocations=8), "cudaMalloc"),
    "pageable_batch": (replace(ALONE, batch_bytes=8 << 20), Faults(pageable_batch=True), "(Pageable -> Device)"),
    "host_work": (ALONE, Faults(host_work_us=2_000), ""),
    "fp32": (ALONE, Faults(precision="fp32"), "sgemm"),
    "fp64": (ALONE, Faults(precision="fp64"), "d884gemm"),
    "fp64_elementwise": (ALONE, Faults(fp64_elementwise=True), "Functor_add<double>"),
    "unfused_attention": (ALONE, Faults(unfused_attention=True), "aten::_softmax"),
    "unfused_gelu": (ALONE, Faults(unfused_gelu=True), "aten::tanh"),
    "clones": (ALONE, Faults(clones=4), "aten::clone"),
    "layout_conversions": (replace(ALONE, convolutions=True), Faults(layout_conversions=True), "nchwToNhwc"),
    "recompute": (ALONE, Faults(recompute=True), "CheckpointFunctionBackward"),
    "loop_optimizer": (ALONE, Faults(loop_optimizer=True), "aten::addcdiv_"),
    "late_all_reduce": (PAIR, Faults(late_all_reduce=True), "nccl:all_reduce"),
    "reduce_every_microbatch": (
        replace(PAIR, microbatches=4),
        Faults(reduce_every_microbatch=True),
        "nccl:all_reduce",
    ),
    "fp32_gradients": (PAIR, Faults(fp32_gradients=True), "AllReduce_Sum_f32"),
    "buffers": (PAIR, Faults(buffers=100), "DistributedDataParallel.forward"),
    "small_all_reduces": (PAIR, Faults(small_all_reduces=20), "nccl:all_reduce"),
    "no_prefetch": (
        replace(PAIR, collectives="all_gather_reduce_scatter"),
        Faults(no_prefetch=True),
        "nccl:_all_gather_base",
    ),
}


def step_ns(spec: JobSpec) -> float:
    windows = [rank.step_windows_ns for rank in truth_of(simulate_job(spec)).ranks]
    return max((steps[-1][1] - steps[0][0]) / spec.steps for steps in windows)


def events_of(spec: JobSpec) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads("".join(rank_text(simulate_job(spec), 0)))["traceEvents"]
    return events


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_time_and_leaves_its_mark(name: str) -> None:
    spec, faults, mark = FAULTS[name]
    flawed = replace(spec, faults=faults)
    assert step_ns(flawed) > 1.05 * step_ns(spec)
    assert any(mark in event.get("name", "") for event in events_of(flawed))


def test_a_fault_does_not_change_the_length_of_what_is_sound() -> None:
    flawed = replace(ALONE, faults=Faults(clones=4, recompute=True))
    assert unit_us(flawed, 0) == unit_us(ALONE, 0)


def test_a_straggler_may_be_slow_in_every_few_steps_only() -> None:
    straggler = Straggler(rank=0, extra_us=100, every=4)
    assert [step for step in range(9) if straggler.slows(step)] == [3, 7]


def test_a_graph_has_one_launch_and_no_operators_for_its_kernels() -> None:
    graph = replace(ALONE, replay_graph=True, step_compute_us=500)
    events = events_of(graph)
    names = Counter(event["name"] for event in events if event.get("cat") == "cuda_runtime")
    assert names["cudaGraphLaunch"] == graph.steps
    assert names["cudaLaunchKernel"] == 0
    kernels = [event for event in events if event.get("cat") == "kernel"]
    launches = {event["args"]["correlation"] for event in events if event.get("name") == "cudaGraphLaunch"}
    assert {kernel["args"]["correlation"] for kernel in kernels} == launches
    assert step_ns(graph) < step_ns(replace(graph, replay_graph=False))


def test_steps_of_an_engine_are_marked_as_vllm_marks_them() -> None:
    events = events_of(replace(ALONE, engine=True))
    labels = {event["name"] for event in events if event.get("cat") == "user_annotation"}
    assert [label for label in labels if label.startswith("execute_context_0(0)_generation_")]
    assert not [event for event in events if "Backward" in event.get("name", "")]


@pytest.mark.parametrize("wrong", ["replay_graph", "layout_conversions"])
def test_what_cannot_be_made_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        if wrong == "replay_graph":
            replace(PAIR, replay_graph=True)
        else:
            replace(ALONE, faults=Faults(layout_conversions=True))
