"""Work of operators in real traces: a known rate, and how much of the kernel time is rated."""

import json
from collections import defaultdict

import pytest

from redline.roofline.roofline import work_of
from redline.roofline.sizes import Work
from redline.timeline.timeline import Kind, Timeline
from redline.trace.reader import read_file
from tests.support.real_traces import RealTraces


def opened(traces: RealTraces, name: str) -> Timeline:
    return next(iter(read_file(traces / name).timelines))


def kernels_by_operator(timeline: Timeline) -> dict[int, list[int]]:
    """Rows of kernels by the row of the operator that launched them."""
    found: dict[int, list[int]] = defaultdict(list)
    work = timeline.device_work
    for kernel, operator in zip(work.row.tolist(), work.operator.tolist(), strict=True):
        if timeline.spans.kind[kernel] == Kind.KERNEL:
            found[operator].append(kernel)
    return found


def texts_of(timeline: Timeline, row: int) -> list[str] | None:
    """Name, shapes, types, strides and values of an operator."""
    operators = timeline.operators
    place = int(operators.row.searchsorted(row))
    if place == len(operators) or operators.row[place] != row:
        return None
    columns = (operators.shapes, operators.dtypes, operators.strides, operators.values)
    return [timeline.texts[timeline.spans.name[row]], *(timeline.text(int(column[place])) for column in columns)]


@pytest.mark.needs_traces
def test_the_rate_of_a_matmul_on_an_h100(traces: RealTraces) -> None:
    timeline = opened(traces, "h100_Qwen_Qwen1.5-0.5B-Chat.json.gz")
    flops = 2 * 8944 * 1024 * 2816
    times_ns = []
    for operator, kernels in sorted(kernels_by_operator(timeline).items()):
        texts = texts_of(timeline, operator)
        if texts is None or texts[0] != "aten::mm" or json.loads(texts[1]) != [[8944, 1024], [1024, 2816]]:
            continue
        size = 2 * (8944 * 1024 + 1024 * 2816 + 8944 * 2816)
        assert work_of(*texts) == Work(flops=flops, bytes=size, dtype="bf16", family="matmul")
        times_ns.append(sum(int(timeline.spans.dur_ns[kernel]) for kernel in kernels))
    # Two products of that shape in each of 24 layers: the gate of the perceptron, then its input.
    gates_ns = times_ns[::2]
    assert len(gates_ns) == 24
    assert flops * len(gates_ns) / sum(gates_ns) / 1000 == pytest.approx(610.7, rel=1e-3)  # TFLOP/s
    assert flops * len(times_ns) / sum(times_ns) / 1000 == pytest.approx(616.6, rel=1e-3)


@pytest.mark.needs_traces
@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("h100_Falconsai_nsfw_image_detection.json.gz", 0.99),
        ("h100_Qwen_Qwen1.5-0.5B-Chat.json.gz", 0.99),
        ("h100_google_owlv2-large-patch14-ensemble.json.gz", 0.99),
        ("h20_single.json.gz", 0.87),  # its optimizer works on lists too long to be recorded
        ("mi300_ddp_resnet18.json.gz", 0.99),
        ("sam_amg_False_4be6279a.json.gz", 0.96),
        ("sglang_qwen3-8b_prefilldecode.json.gz", 0.95),
        ("xdit_sd35_rank0.json.gz", 0.99),
    ],
)
def test_most_kernel_time_with_recorded_shapes_is_rated(name: str, share: float, traces: RealTraces) -> None:
    timeline = opened(traces, name)
    rated = total = 0
    for operator, kernels in kernels_by_operator(timeline).items():
        texts = texts_of(timeline, operator) if operator >= 0 else None
        if texts is None or not texts[1]:
            continue
        spans = timeline.spans
        main = max(kernels, key=lambda kernel: int(spans.dur_ns[kernel]))
        time_ns = sum(int(spans.dur_ns[kernel]) for kernel in kernels)
        total += time_ns
        if work_of(*texts, kernel_name=timeline.texts[spans.name[main]]) is not None:
            rated += time_ns
    assert rated / total >= share
