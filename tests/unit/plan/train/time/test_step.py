"""The time of a step: parts that add up, columns that are what single numbers are, and no miracles."""

from dataclasses import fields, replace
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.errors import UsageError
from redline.hardware.catalogue import find
from redline.hardware.machine import Figure, calibrated
from redline.model.huggingface import describe
from redline.model.model import Column
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.stacks import Rates, SoftwareStack, rates_of, stack, stack_names, with_stack
from redline.plan.train.step_cost import StepTime, row_of
from redline.plan.train.time.step import step_time
from redline.plan.train.time.step_costs import step_costs

MODEL = describe(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256)
SPARSE = describe(
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    ffn=0,
    vocab=32000,
    moe_layers=32,
    experts=8,
    experts_per_token=2,
    expert_ffn=14336,
)
H100 = find("H100-SXM5-80GB")
RATES = rates_of(H100)
BATCH = Batch(sequence=4096, sequences=256)

powers = st.integers(0, 5).map(lambda power: 2.0**power)
layouts = st.builds(
    Layout,
    dp=powers,
    tp=powers,
    pp=powers,
    cp=st.sampled_from([1.0, 2.0]),
    zero=st.sampled_from([0.0, 1.0, 2.0, 3.0]),
    micro_batch=st.sampled_from([1.0, 2.0, 4.0]),
    recompute=st.sampled_from([0.0, 1.0, 2.0]),
    schedule=st.sampled_from([0.0, 1.0, 2.0]),
    sequence_parallel=st.sampled_from([0.0, 1.0]),
    flash=st.sampled_from([0.0, 1.0]),
)
# Of these, more is never slower; of the others, never faster.
BETTER = (
    "compute_flops_per_s",
    "head_flops_per_s",
    "memory_bytes_per_s",
    "attention_flops_per_s",
    "node_bytes_per_s",
    "pair_bytes_per_s",
    "nic_bytes_per_s",
)
WORSE = (
    "fixed_s",
    "node_latency_s",
    "across_latency_s",
    "hidden_passes",
    "logit_passes",
    "accumulate_bytes",
    "gradient_bytes",
    "optimizer_bytes",
    "host_layer_s",
    "host_collective_s",
    "host_busy_s",
    "host_across_s",
    "host_micro_batch_s",
    "host_send_s",
    "host_step_s",
    "stall_send_s",
    "stall_micro_batch_s",
    "stall_reduce",
)


def timed(layout: Layout, rates: Rates = RATES, batch: Batch = BATCH) -> StepTime:
    return step_time(step_costs(MODEL, batch, layout, rates))


@given(layouts)
def test_parts_are_not_negative_and_no_step_is_faster_than_the_peak(layout: Layout) -> None:
    time = timed(layout)
    for field in fields(StepTime):
        assert np.all(getattr(time, field.name) >= -1e-12), field.name
    devices = layout.dp * layout.tp * layout.pp * layout.cp
    flops = 6 * 7e9 * 4096 * 256  # without attention and recomputation
    assert float(time.step_s) > flops / devices / RATES.peak_flops_per_s


@given(layouts, st.sampled_from(BETTER), st.floats(1.0, 8.0))
def test_a_faster_machine_is_never_slower(layout: Layout, name: str, faster: float) -> None:
    better = replace(RATES, **{name: getattr(RATES, name) * faster})
    assert float(timed(layout, better).step_s) <= float(timed(layout).step_s) * (1 + 1e-4)


@given(layouts, st.sampled_from(WORSE), st.floats(1.0, 8.0))
def test_more_overhead_is_never_faster(layout: Layout, name: str, more: float) -> None:
    worse = replace(RATES, **{name: getattr(RATES, name) * more + 1e-6})
    assert float(timed(layout, worse).step_s) >= float(timed(layout).step_s) * (1 - 1e-4)


def many(count: int) -> Layout:
    random = np.random.default_rng(7)

    def drawn(below: int) -> Column:
        return random.integers(0, below, count).astype(np.float64)

    return Layout(
        dp=np.exp2(drawn(6)),
        tp=np.exp2(drawn(4)),
        pp=np.exp2(drawn(4)),
        micro_batch=np.exp2(drawn(3)),
        zero=drawn(4),
        recompute=drawn(3),
        sequence_parallel=drawn(2),
        chunks=1 + drawn(2),
    )


def test_a_column_is_what_its_rows_are_alone() -> None:
    columns = many(50)
    together = timed(columns).step_s
    alone = [float(timed(row_of(columns, row)).step_s) for row in range(50)]
    assert together == pytest.approx(alone, rel=1e-12)


def test_models_and_rates_may_be_columns_too() -> None:
    wide = replace(MODEL, hidden=np.array([4096.0, 8192.0]), ffn=np.array([14336.0, 28672.0]))
    slow = replace(RATES, nic_bytes_per_s=np.array([5e10, 1e9]))
    found = step_time(step_costs(wide, BATCH, Layout(dp=16), slow)).step_s
    assert found.shape == (2,)
    assert found[0] == pytest.approx(float(timed(Layout(dp=16), replace(RATES, nic_bytes_per_s=5e10)).step_s))


def test_a_hundred_thousand_layouts_in_a_second() -> None:
    columns = many(20_000)
    timed(columns)

    def cpu_s() -> float:
        began = process_time()
        timed(columns)
        return process_time() - began

    assert 20_000 / min(cpu_s() for _ in range(5)) > 100_000


def test_a_layer_never_takes_less_than_its_launches() -> None:
    small = Batch(sequence=16, sequences=8)
    slow = replace(RATES, host_layer_s=0.01, host_backward=2.0)
    time = timed(Layout(dp=8), slow, small)
    assert float(time.step_s) > 32 * 0.03
    assert float(time.host_s) > 0.9 * 32 * 0.03


def test_recomputing_costs_a_forward_pass() -> None:
    plain, full = timed(Layout(dp=8)), timed(Layout(dp=8, recompute=2.0))
    extra = float(full.step_s - plain.step_s) / float(plain.compute_s)
    assert 0.2 < extra < 0.4


def test_frozen_weights_have_no_gradients() -> None:
    trained, frozen = timed(Layout(dp=16)), timed(Layout(dp=16, lora=16.0))
    assert 0 < float(frozen.reduce_s) < float(trained.reduce_s) / 10
    assert float(frozen.optimizer_s) < float(trained.optimizer_s) / 2
    assert 0.6 < float(frozen.compute_s) / float(trained.compute_s) < 0.8


def test_experts_far_away_cost_traffic() -> None:
    def time(ep: float) -> StepTime:
        return step_time(step_costs(SPARSE, BATCH, Layout(dp=32, ep=ep, zero=1.0), RATES))

    assert float(time(1.0).expert_s) == 0.0
    assert float(time(1.0).expert_s) < float(time(8.0).expert_s) < float(time(32.0).expert_s)


def test_tensor_parallel_beyond_a_node_is_slow() -> None:
    within, beyond = timed(Layout(tp=8, dp=2)), timed(Layout(tp=16))
    assert float(beyond.tensor_s) > 2 * float(within.tensor_s)


def test_the_host_needs_longer_for_tensor_parallel_beyond_a_node() -> None:
    rates = replace(RATES, host_layer_s=1e-3, host_backward=1.0, host_across_s=1e-3)
    small, batch = Layout(tp=8, dp=2), Batch(sequence=128, sequences=16)
    within, beyond = timed(small, rates, batch), timed(replace(small, tp=16, dp=1), rates, batch)
    assert float(beyond.host_s) > 2 * float(within.host_s)


def test_a_large_job_in_stages_waits_for_every_send_of_a_cluster_that_stalls() -> None:
    """Down and up once, whatever the micro-batches; a job on one node less does not wait."""
    rates = replace(RATES, stall_nodes=4.0, stall_send_s=1.0)
    batch = Batch(sequence=4096, sequences=16)
    large, less = Layout(dp=16, pp=2), Layout(dp=12, pp=2)
    longer_s = timed(large, rates, batch).step_s - timed(large, RATES, batch).step_s
    assert float(longer_s) == pytest.approx(2.0)
    assert float(timed(less, rates).step_s) == float(timed(less).step_s)


def test_a_large_job_in_one_stage_stalls_with_every_micro_batch_and_in_its_all_reduce() -> None:
    layout = Layout(dp=32, micro_batch=2.0)
    each = replace(RATES, stall_nodes=4.0, stall_micro_batch_s=1.0)
    longer_s = timed(layout, each).step_s - timed(layout).step_s
    assert float(longer_s) == pytest.approx(256 / 32 / 2)
    slow = replace(RATES, stall_nodes=4.0, stall_reduce=10.0)
    assert float(timed(layout, slow).reduce_s) > 2 * float(timed(layout).reduce_s)
    scattered = replace(layout, zero=1.0)
    assert float(timed(scattered, slow).step_s) == float(timed(scattered).step_s)


@pytest.mark.parametrize("name", [name for name in stack_names() if name != "nanotron"])
def test_stalls_of_the_cluster_of_one_sweep_are_expected_nowhere_else(name: str) -> None:
    found = stack(name, "H100-SXM5-80GB")
    assert (found.stall_send_s, found.stall_micro_batch_s, found.stall_reduce) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("name", stack_names())
def test_every_stack_has_plausible_constants(name: str) -> None:
    found = stack(name, "H100-SXM5-80GB")
    assert 0.3 < float(found.sustained) <= 1.3
    assert float(rates_of(H100, "bf16", name).compute_flops_per_s) < H100.figures["peak_flops_per_s.bf16"].value


@pytest.mark.parametrize("name", stack_names())
def test_logits_and_attention_stay_below_the_peak_of_16_bits_when_layers_compute_in_8(name: str) -> None:
    rates, peak = rates_of(H100, "fp8", name), H100.figures["peak_flops_per_s.bf16"].value
    assert float(rates.head_flops_per_s) < peak
    assert float(rates.attention_flops_per_s) < peak


def test_a_stack_keeps_its_own_constants_on_a_machine_that_it_was_not_fitted_to() -> None:
    assert float(stack("nanotron", "MI300X").host_layer_s) == float(stack("nanotron", "H100-SXM5-80GB").host_layer_s)


def test_shares_of_a_stack_scale_the_machine() -> None:
    half = with_stack(RATES, SoftwareStack(sustained=0.5, nic_share=0.25))
    assert half.compute_flops_per_s == 0.5 * RATES.compute_flops_per_s
    assert half.nic_bytes_per_s == 0.25 * RATES.nic_bytes_per_s


def test_an_unknown_stack_is_refused() -> None:
    with pytest.raises(UsageError, match=r"there is no software stack 'nanotorn'\nthere are: nanotron, "):
        stack("nanotorn")


def test_links_that_were_measured_come_before_published_ones() -> None:
    def figure(value: float) -> Figure:
        return Figure(value=value, source="here", date="2026-08")

    figures = {
        "collective_bytes_per_s.node.all_gather": figure(80e9),
        "collective_bytes_per_s.node.send_recv": figure(60e9),
        "collective_bytes_per_s.across.send_recv": figure(9e9),
        "collective_latency_ns.node.all_gather": figure(40_000),
    }
    found = rates_of(calibrated(H100, "ours", figures), "bf16", "megatron-core")
    share = stack("megatron-core", "H100-SXM5-80GB")
    assert found.node_bytes_per_s == pytest.approx(80e9 * 7 / 8 * float(share.node_share))
    assert found.pair_bytes_per_s == pytest.approx(60e9 * float(share.node_share))
    assert found.nic_bytes_per_s == pytest.approx(9e9 * float(share.nic_share))
    assert found.node_latency_s == pytest.approx(40e-6)
    assert found.across_latency_s == share.across_latency_s


def test_attention_in_pieces_reaches_what_shorter_sequences_do() -> None:
    """A quarter of the products each, of pieces of 2,048 tokens."""
    whole, cut = (step_costs(MODEL, Batch(sequence=8192, sequences=64), Layout(cp=cp), RATES) for cp in (1.0, 4.0))
    fixed_s = float(RATES.fixed_s)
    slower = (2048 + RATES.attention_half) / 2048 / ((8192 + RATES.attention_half) / 8192)
    assert float(cut.attention_s) - fixed_s == pytest.approx((float(whole.attention_s) - fixed_s) / 4 * float(slower))


def test_keys_and_values_are_not_cut_below_one_head_per_device() -> None:
    """The model has 8 heads of keys and values."""
    rates = replace(RATES, devices_per_node=256, node_latency_s=0.0)
    ring_s = [float(step_costs(MODEL, BATCH, Layout(tp=tp, cp=4), rates).ring_s) for tp in (4.0, 8.0, 16.0)]
    assert ring_s[1] == pytest.approx(ring_s[0] / 2)
    assert ring_s[2] == pytest.approx(ring_s[1])


@pytest.mark.parametrize("zero", [0.0, 1.0])
def test_experts_that_no_other_device_has_are_reduced_with_nobody(zero: float) -> None:
    """Of 8 copies with 8 parts of experts each device reduces what is no expert, as a model without them would."""
    dense = replace(SPARSE, experts=0, moe_layers=0, experts_per_token=0)
    near = replace(RATES, across_latency_s=0.0, node_latency_s=0.0)
    found = step_costs(SPARSE, BATCH, Layout(dp=8, ep=8, zero=zero), near)
    without = step_costs(dense, BATCH, Layout(dp=8, zero=zero), near)
    # Its router is all that the other one lacks.
    assert float(found.reduce_s) == pytest.approx(float(without.reduce_s), rel=1e-3)
    assert float(step_costs(SPARSE, BATCH, Layout(dp=16, ep=8, zero=zero), near).reduce_s) > 2 * float(found.reduce_s)


def test_the_optimizer_has_a_share_of_experts_for_each_of_their_copies() -> None:
    """With ZeRO-1, 8 devices that spread all experts hold each state once, as 8 with all experts on each do."""
    spread_out, everywhere = (step_costs(SPARSE, BATCH, Layout(dp=8, ep=ep, zero=1), RATES) for ep in (8.0, 1.0))
    assert float(spread_out.optimizer_s) == pytest.approx(float(everywhere.optimizer_s))


def test_offloaded_states_take_the_link_to_the_host_and_adam_in_its_memory() -> None:
    rates = replace(RATES, host_link_bytes_per_s=40e9, host_memory_bytes_per_s=200e9)

    def offload_s(devices: float, rates: Rates = rates) -> float:
        return float(step_costs(MODEL, BATCH, Layout(dp=devices, offload=1.0), rates).offload_s)

    copied_s = offload_s(1.0, replace(rates, host_memory_bytes_per_s=np.inf))
    parameters = copied_s * 40e9 / 4
    assert parameters == pytest.approx(8.03e9, rel=0.01)
    assert offload_s(1.0) - copied_s == pytest.approx(parameters * 28 / 200e9)
    assert offload_s(8.0) - copied_s == pytest.approx(8 * parameters * 28 / 200e9)
    assert offload_s(64.0) == pytest.approx(offload_s(8.0)), "a second node has a host of its own"


def test_embedding_and_head_are_gathered_too() -> None:
    """Half the gathers of a model are those of its vocabulary, where this has as many numbers as all layers."""
    rates = replace(RATES, node_latency_s=0.0, across_latency_s=0.0)
    small = describe(layers=4, hidden=1024, heads=8, kv_heads=8, ffn=4096, vocab=0)
    large = replace(small, vocab=4 * (4 * 1024**2 + 3 * 1024 * 4096) / 1024 / 2)
    gather_s = [float(step_costs(each, BATCH, Layout(dp=8, zero=3), rates).gather_s) for each in (small, large)]
    assert gather_s[1] == pytest.approx(2 * gather_s[0], rel=1e-3)


@pytest.mark.parametrize("name", stack_names())
def test_no_stack_sends_faster_than_network_cards_do(name: str) -> None:
    assert stack(name).nic_share <= 1.0
    assert stack(name).gather_share <= 1.0
