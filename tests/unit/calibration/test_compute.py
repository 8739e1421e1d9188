"""Matmuls, convolutions and attention as they are timed: what they cost, in which types, and what is declined."""

import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import conv2d, scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from redline.calibration import compute, matmuls
from redline.calibration.bench import Samples, TimingBudget, take
from redline.calibration.calibration_record import Kernel
from redline.calibration.compute import FEWEST
from redline.calibration.device import ProbeDevice
from redline.calibration.matmuls import (
    AttentionShape,
    Convolution,
    MatmulShape,
    NotHereError,
    Number,
    Operands,
    product_of,
)
from redline.roofline.roofline import work_of

NUMBERS = {number.name: number for number in matmuls.numbers(ProbeDevice("cpu"))}


def counted_flops(step: Callable[[], object]) -> int:
    counter = FlopCounterMode(display=False)
    with counter:
        step()
    return counter.get_total_flops()


class FakeDevice(ProbeDevice):
    """A processor on which every matmul takes as long as a test says."""

    def __init__(self, call_ns: float, free_bytes: int = 1 << 36) -> None:
        super().__init__("cpu")
        self.call_ns, self.free = call_ns, free_bytes

    def timed_ns(self, call: Callable[[], object], repeats: int) -> float:
        return self.call_ns

    def free_bytes(self) -> int:
        return self.free


# --- costs ------------------------------------------------------------------------------------------------------------


def test_matmuls_cost_what_torch_and_traces_say() -> None:
    product = MatmulShape(24, 40, 56)
    cost = product.cost(4, 4)
    left, right = torch.ones(24, 56), torch.ones(56, 40)
    assert cost.flops == counted_flops(partial(torch.mm, left, right))
    work = work_of("aten::mm", "[[24, 56], [56, 40]]", '["float", "float"]', "", "")
    assert work is not None
    assert (cost.flops, cost.bytes) == (work.flops, work.bytes)


def test_an_int8_matmul_writes_int32() -> None:
    work = work_of("aten::_int_mm", "[[32, 64], [64, 16]]", '["signed char", "signed char"]', "", "")
    assert work is not None
    int8 = NUMBERS["int8"]
    assert MatmulShape(32, 16, 64).cost(int8.operand_bytes, int8.result_bytes).bytes == work.bytes


def test_convolutions_cost_what_torch_and_traces_say() -> None:
    shape = Convolution(2, 8, 6)
    data, weight = torch.ones(2, 8, 6, 6), torch.ones(8, 8, 3, 3)
    cost = shape.cost(4)
    assert cost.flops == counted_flops(partial(conv2d, data, weight, padding=1))
    work = work_of(
        "aten::conv2d",
        "[[2, 8, 6, 6], [8, 8, 3, 3], [], [], [], [], []]",
        '["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar"]',
        "",
        '["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"]',
    )
    assert work is not None
    assert (cost.flops, cost.bytes) == (work.flops, work.bytes)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_costs_what_traces_say(causal: bool) -> None:
    cost = AttentionShape(2, 3, 16, 8, causal).cost(2)
    work = work_of(
        "aten::scaled_dot_product_attention",
        "[[2, 3, 16, 8], [2, 3, 16, 8], [2, 3, 16, 8], [], [], []]",
        '["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "", "Scalar", "Scalar"]',
        "",
        f'["", "", "", "", "0.", "{causal}"]',
    )
    assert work is not None
    assert (cost.flops, cost.bytes) == (work.flops, work.bytes)


def test_attention_without_a_mask_costs_what_torch_says() -> None:
    size = (2, 3, 16, 8)
    assert AttentionShape(*size, causal=False).cost(4).flops == sdpa_flop_count(size, size, size)  # type: ignore[no-untyped-call]


def test_a_shape_is_written_as_it_is_read() -> None:
    assert str(product_of("1024x512x4096")) == "1024x512x4096"
    assert product_of("1024x512x4096") == MatmulShape(m=1024, n=512, k=4096)


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fp32", "fp32-as-bf16", "bf16", "fp16", "int8", "fp8"])
def test_every_type_computes_the_product(name: str) -> None:
    product = MatmulShape(32, 48, 64)
    operands = Operands(ProbeDevice("cpu"), [product])
    exact = operands.call(NUMBERS["fp32"], product)().clone().double()
    result = operands.call(NUMBERS[name], product)()
    assert str(result.dtype) == f"torch.{NUMBERS[name].result}"
    if name == "fp8":  # takes its second matrix by columns
        return
    scale = 64.0 if name == "int8" else 1.0  # integers are eight times as large, and cut off
    tolerance = {"int8": 0.2, "fp32": 0.0}.get(name, 0.02)
    difference = (result.double() / scale - exact).norm() / exact.norm()
    assert difference <= tolerance


def test_relaxed_fp32_leaves_the_setting_as_it_was() -> None:
    setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = setting.fp32_precision
    product = MatmulShape(32, 32, 32)
    call = Operands(ProbeDevice("cpu"), [product]).call(NUMBERS["fp32-as-bf16"], product)
    call()
    assert setting.fp32_precision == before


def test_the_setting_is_restored_when_a_matmul_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = setting.fp32_precision
    seen = []

    def failing() -> torch.Tensor:
        seen.append(setting.fp32_precision)
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        matmuls._computed_in("bf16", failing, setting)()
    assert (seen, setting.fp32_precision) == (["bf16"], before)


def test_fp32_is_fp32_also_where_torch_was_told_otherwise() -> None:
    """As the default of some images of containers, and of convolutions on CUDA."""
    setting = SimpleNamespace(fp32_precision="tf32")
    seen = []

    def call() -> torch.Tensor:
        seen.append(setting.fp32_precision)
        return torch.ones(1)

    matmuls.strict(call, setting)()
    assert (seen, setting.fp32_precision) == (["ieee"], "tf32")
    assert matmuls.strict(call, None) is call  # an older torch


def test_operands_vary_and_take_no_memory_when_nobody_uses_them() -> None:
    values = matmuls.varied((100, 1000), "int8", ProbeDevice("cpu"))
    assert values.shape == (100, 1000)
    assert len(set(values[0].tolist())) > 20
    operands = Operands(ProbeDevice("cpu"), [MatmulShape(8, 8, 8)])
    call = operands.call(NUMBERS["fp32"], MatmulShape(8, 8, 8))
    assert len(operands._arrays) == 3
    del call
    assert len(operands._arrays) == 0


def test_a_type_that_changes_nothing_is_declined() -> None:
    same = Number(
        name="fp32-as-ieee", operand="float32", result="float32", operand_bytes=4, result_bytes=4, relaxed="ieee"
    )
    with pytest.raises(NotHereError, match="torch computes fp32 as fp32 on this device, even where it may use ieee"):
        matmuls.first_flops_per_s(same, ProbeDevice("cpu"))


def test_emulated_fp8_is_declined() -> None:
    with pytest.raises(
        NotHereError, match="this processor has no fp8 arithmetic that torch uses: it would be emulated"
    ):
        matmuls.first_flops_per_s(NUMBERS["fp8"], FakeDevice(call_ns=5e6))


def test_fp8_is_declined_on_older_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    device = FakeDevice(1.0)
    device.kind = "cuda"
    with pytest.raises(NotHereError, match="this device has no fp8 arithmetic"):
        matmuls.first_flops_per_s(NUMBERS["fp8"], device)


# --- cases ------------------------------------------------------------------------------------------------------------


def of_type(device: ProbeDevice, dtype: str, *, quick: bool = False) -> list[Kernel]:
    return [
        case.key
        for case in compute.cases(device, quick=quick)
        if (case.key.dtype, case.key.family) == (dtype, "matmul")
    ]


def test_shapes_that_would_take_long_are_left_out() -> None:
    fast, slow = (of_type(FakeDevice(call_ns), "fp32") for call_ns in (1e3, 1e6))
    assert len(fast) > len(slow) > FEWEST
    flops_per_s = 2 * 512**3 / 1e6 * 1e9
    assert max(kernel.flops for kernel in slow) / flops_per_s <= 0.06


def test_a_slow_machine_still_measures_what_a_law_needs() -> None:
    assert len(of_type(FakeDevice(1e12), "fp32", quick=True)) >= FEWEST


def test_shapes_that_do_not_fit_into_memory_are_left_out() -> None:
    kernels = of_type(FakeDevice(1e3, free_bytes=64 << 20), "fp32")
    assert kernels
    assert max(kernel.bytes for kernel in kernels) <= 8 << 20


def test_a_type_is_declined_once() -> None:
    device, samples = FakeDevice(5e6), Samples[Kernel]()
    cases = [case for case in compute.cases(device, quick=True) if case.key.dtype == "fp8"]
    take(cases, device, TimingBudget(rounds=1, sample_ns=1, call_limit_ns=10**9), samples)
    assert samples.declined == {
        "matmul in fp8": "this processor has no fp8 arithmetic that torch uses: it would be emulated"
    }


def test_small_kernels_of_every_family_are_timed() -> None:
    device, samples = ProbeDevice("cpu"), Samples[Kernel]()
    product = MatmulShape(64, 64, 64)
    cases = [
        compute._matmul(NUMBERS["bf16"], product, Operands(device, [product])),
        compute._convolution(Convolution(1, 8, 7), "fp32", device),
        compute._attention(AttentionShape(1, 2, 16, 8, True), "bf16", device),
    ]
    take(cases, device, TimingBudget(rounds=2, sample_ns=1, call_limit_ns=10**10), samples)
    points = compute.points(samples, noise=0.0)
    assert not samples.declined
    assert [(point.family, point.dtype, point.shape) for point in points] == [
        ("matmul", "bf16", "64x64x64"),
        ("convolution", "fp32", "1x8x7x7, 3x3"),
        ("attention", "bf16", "1x2x16x8, causal"),
    ]
    assert all(point.flops_per_s.value > 0 and point.time_ns.samples == 2 for point in points)


def test_attention_is_the_one_that_was_asked_for() -> None:
    call = compute._attention(AttentionShape(1, 1, 4, 8, True), "fp32", ProbeDevice("cpu")).prepare()
    assert isinstance(call, partial)
    assert call.func is scaled_dot_product_attention
    assert call.keywords == {"is_causal": True}


# --- peaks ------------------------------------------------------------------------------------------------------------


def kernel(dtype: str, shape: str, family: str = "matmul") -> Kernel:
    return Kernel(family=family, dtype=dtype, shape=shape, flops=product_of(shape).cost(1, 1).flops, bytes=1)


def made_up() -> Samples[Kernel]:
    samples = Samples[Kernel]()
    small, large, other = kernel("fp32", "16x16x16"), kernel("fp32", "32x32x32"), kernel("bf16", "64x64x64")
    samples.add({small: [100.0, 90.0], large: [500.0, 400.0], other: [1000.0]})
    samples.add({small: [100.0], large: [410.0], other: [1000.0]})
    samples.add({kernel("fp32", "128x128x128", "attention"): [1.0]})
    return samples


def test_the_burst_is_the_fastest_sample_of_the_best_shape() -> None:
    fp32, bf16 = compute.peaks(made_up(), ProbeDevice("cpu"), noise=0.0, sustain_s=0.0)
    assert (fp32.dtype, fp32.shape, bf16.dtype) == ("fp32", "32x32x32", "bf16")
    assert fp32.burst_flops_per_s.value == pytest.approx(2 * 32**3 / 400 * 1e9)
    assert fp32.sustained_flops_per_s is None
    assert not fp32.curve


def test_a_clock_that_drops_shows_in_the_sustained_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = [0.0]

    class Dropping(ProbeDevice):
        """Half as fast after the first second."""

        def timed_ns(self, call: Callable[[], object], repeats: int) -> float:
            call_ns = 1e6 if clock_s[0] < 1.0 else 2e6
            clock_s[0] += call_ns * repeats / 1e9
            return call_ns

    monkeypatch.setattr(time, "perf_counter", lambda: clock_s[0])
    samples = Samples[Kernel]()
    samples.add({kernel("fp32", "32x32x32"): [1e6]})
    (peak,) = compute.peaks(samples, Dropping("cpu"), noise=0.0, sustain_s=4.0)
    assert peak.sustained_flops_per_s is not None
    assert peak.sustained_flops_per_s.value == pytest.approx(peak.burst_flops_per_s.value / 2)
    assert peak.sustained_s == 4.0
    seconds = [at_s for at_s, _ in peak.curve]
    assert seconds == sorted(seconds)
    assert peak.curve[0][1] == pytest.approx(2 * peak.curve[-1][1])


def test_a_device_that_is_faster_when_busy_has_no_lower_burst() -> None:
    class Late(ProbeDevice):
        """Slow when it is timed for the first time, then twice as fast."""

        times = 0

        def timed_ns(self, call: Callable[[], object], repeats: int) -> float:
            self.times += 1
            time.sleep(0.01)
            return 2e6 if self.times < 3 else 1e6

    samples = Samples[Kernel]()
    samples.add({kernel("fp32", "32x32x32"): [2e6, 2.1e6]})
    (peak,) = compute.peaks(samples, Late("cpu"), noise=0.0, sustain_s=0.2)
    assert peak.sustained_flops_per_s is not None
    assert peak.burst_flops_per_s.value >= peak.sustained_flops_per_s.value == pytest.approx(2 * 32**3 / 1e6 * 1e9)


def test_the_device_is_kept_busy_with_the_best_shape() -> None:
    samples = Samples[Kernel]()
    samples.add({kernel("bf16", "64x64x64"): [1e4]})
    (peak,) = compute.peaks(samples, ProbeDevice("cpu"), noise=0.0, sustain_s=0.05)
    assert peak.sustained_flops_per_s is not None
    assert peak.sustained_flops_per_s.value > 0


def test_without_time_there_is_a_burst_but_no_sustained_rate() -> None:
    left = iter([1.0, 0.04])
    fp32, bf16 = compute.peaks(made_up(), ProbeDevice("cpu"), noise=0.0, sustain_s=0.05, left_s=lambda: next(left))
    assert fp32.sustained_flops_per_s is not None
    assert (bf16.sustained_flops_per_s, bf16.sustained_s) == (None, 0.0)
    assert bf16.burst_flops_per_s.value > 0
