"""Memory by the book where there is a book, by lifetime elsewhere, and the same for a number as for a column."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redline.errors import UsageError
from redline.model.huggingface import known_model
from redline.model.model import Model
from redline.model.parameters import count_parameters, layer_parameters
from redline.plan.train.layout import Batch, Layout, memory_stages, trained_parameters
from redline.plan.train.memory.footprint import Footprint, footprint, oom_probability
from redline.plan.train.memory.use import memory_use
from redline.plan.train.step_cost import MemoryUse
from redline.plan.train.training_choices import PipelineSchedule, Recompute

BATCH = Batch(sequence=4096, sequences=256)
TAIL = 2 * 2 * 4096 * 4096
"""Bytes that go into the last norm and into the head, of one micro-batch."""


def llama(layers: int = 32) -> Model:
    return Model(
        layers=layers, hidden=4096, heads=32, kv_heads=8, head_dim=128, value_dim=128, ffn=14336, gated=1, vocab=128256,
        tied=0, attention_layers=layers, dense_layers=layers,
    )  # fmt: skip


def states(use: MemoryUse) -> float:
    return float(use.weights_bytes + use.gradients_bytes + use.optimizer_bytes)


def _kept(model: Model, **layout: float) -> float:
    """Activations of the layers, without what the last norm and the head keep."""
    return float(memory_use(model, BATCH, Layout(**layout), "").activations_bytes) - TAIL


@pytest.mark.parametrize(("form", "per_parameter"), [("bf16", 16), ("fp32", 16), ("bf16-true", 8)])
def test_states_are_the_books_bytes_per_parameter(form: str, per_parameter: int) -> None:
    use = memory_use(llama(), BATCH, Layout(), footprint("", form))
    assert states(use) == pytest.approx(per_parameter * count_parameters(llama()).total)


def test_gradients_in_32_bits_beside_16_bit_ones_make_20_bytes() -> None:
    """Of copies, which reduce them from buckets; one copy alone has the second ones when its activations are gone."""
    copies = memory_use(llama(), BATCH, Layout(dp=2), "nanotron")
    assert states(copies) == pytest.approx(20 * count_parameters(llama()).total)
    long = memory_use(llama(), BATCH, Layout(micro_batch=4), "nanotron")
    assert states(long) == pytest.approx(18 * count_parameters(llama()).total)


@pytest.mark.parametrize(("zero", "kept"), [(0, 16), (1, 4 + 12 / 8), (3, 16 / 8)])
def test_each_stage_of_zero_divides_one_part_more(zero: int, kept: float) -> None:
    use = memory_use(llama(), replace(BATCH, sequences=8), Layout(dp=8, zero=zero), "")
    assert states(use) == pytest.approx(kept * count_parameters(llama()).total)


def test_whole_gradients_of_zero_2_come_as_activations_go() -> None:
    """With one micro-batch they are made in the backward pass and divided at its end."""
    use = memory_use(llama(), replace(BATCH, sequences=8), Layout(dp=8, zero=2), "")
    assert states(use) == pytest.approx((2 + 12 / 8) * count_parameters(llama()).total)


def test_gradients_that_are_reduced_once_per_step_are_whole_until_then() -> None:
    """What a step with several micro-batches does not send, it cannot have sent away."""
    two, three = (memory_use(llama(), BATCH, Layout(dp=8, zero=zero), "") for zero in (2, 3))
    assert two.gradients_bytes == pytest.approx(2 * count_parameters(llama()).total)
    assert three.gradients_bytes == pytest.approx(two.gradients_bytes / 8)


def test_hybrid_sharding_divides_over_its_group_only() -> None:
    use = memory_use(llama(), BATCH, Layout(dp=64, zero=3, shard=8), "")
    assert states(use) == pytest.approx(2 * count_parameters(llama()).total)


def test_experts_are_divided_over_fewer_copies() -> None:
    sparse = replace(llama(), dense_layers=0, moe_layers=32, experts=8, experts_per_token=2, expert_ffn=14336)
    counted = count_parameters(sparse)
    use = memory_use(sparse, BATCH, Layout(dp=16, ep=8, zero=1), "")
    dense = (counted.total - counted.experts) * (4 + 12 / 16)
    assert states(use) == pytest.approx(dense + counted.experts / 8 * (4 + 12 / 2))


def test_offloaded_states_leave_the_device() -> None:
    assert memory_use(llama(), BATCH, Layout(offload=1), "").optimizer_bytes == 0


def test_adapters_need_hardly_any_states() -> None:
    layout = Layout(lora=16)
    use, adapters = memory_use(llama(), BATCH, layout, ""), trained_parameters(llama(), layout)
    assert adapters < 0.01 * count_parameters(llama()).total
    assert states(use) == pytest.approx(2 * count_parameters(llama()).total + 16 * adapters)


def test_a_pipeline_holds_a_micro_batch_per_stage_to_come() -> None:
    alone = _kept(llama())
    first = memory_use(llama(), BATCH, Layout(pp=4), "")
    assert first.activations_bytes == pytest.approx(alone)
    assert first.head_bytes == 0


def test_interleaving_holds_more_by_one_chunk_less_one_stage() -> None:
    once = memory_use(llama(), BATCH, Layout(pp=4), "").activations_bytes
    twice = memory_use(llama(), BATCH, Layout(pp=4, chunks=2), "").activations_bytes
    assert twice / once == pytest.approx(1 + 3 / 8)


def test_gpipe_holds_every_micro_batch() -> None:
    one = memory_use(llama(), BATCH, Layout(dp=16, pp=4), "").activations_bytes
    every = memory_use(llama(), BATCH, Layout(dp=16, pp=4, schedule=PipelineSchedule.GPIPE), "").activations_bytes
    assert (every - 16 * TAIL) / one == pytest.approx(16 / 4)


def test_the_last_stage_is_the_fullest_where_logits_outweigh_layers() -> None:
    use = memory_use(llama(layers=8), Batch(sequence=4096, sequences=64), Layout(pp=2, micro_batch=8), "")
    assert use.head_bytes > 0


def test_recomputation_keeps_the_input_of_each_layer_and_one_layer() -> None:
    few_words = replace(llama(), vocab=1024)
    none, full = _kept(few_words), _kept(few_words, recompute=Recompute.FULL)
    assert full == pytest.approx(32 * 4096 * 4096 * 2 + none / 32)


def test_logits_are_gone_before_a_layer_is_computed_again() -> None:
    """Of the two, the larger is at the peak."""
    assert _kept(llama(), recompute=Recompute.FULL) == pytest.approx(32 * 4096 * 4096 * 2)
    few_words = memory_use(replace(llama(), vocab=1024), BATCH, Layout(recompute=Recompute.FULL), "")
    assert few_words.head_bytes == 0


def test_cleared_gradients_are_not_there_when_the_backward_pass_begins() -> None:
    one, many = Batch(sequence=4096, sequences=1), Batch(sequence=4096, sequences=2)
    cleared, kept = Footprint(cleared_gradients=1.0), Footprint()
    gradients = 2 * count_parameters(llama()).total
    assert memory_use(llama(), one, Layout(), kept).gradients_bytes == gradients
    assert memory_use(llama(), one, Layout(), cleared).gradients_bytes == 0
    assert memory_use(llama(), many, Layout(), cleared).gradients_bytes == gradients  # of the first micro-batch
    short = memory_use(llama(), Batch(sequence=16, sequences=1), Layout(), cleared)
    assert short.gradients_bytes == gradients  # the peak is in the optimizer's step
    assert short.activations_bytes == 0


def test_autocast_keeps_casts_of_weights_and_adds_up_in_32_bits() -> None:
    plain, autocast = Footprint(), Footprint(cast_bytes=2.0, residual_bytes=4.0)
    layer, head = layer_parameters(llama()).total, 128256 * 4096
    more = memory_use(llama(), BATCH, Layout(), autocast).activations_bytes
    more -= memory_use(llama(), BATCH, Layout(), plain).activations_bytes
    residual = 2 * 4096 * 4096 * (2 * 32 + 1)  # two bytes more of two norms a layer, and of the last one
    assert more == pytest.approx(2 * (32 * layer + head) + residual)


def test_autocast_holds_casts_of_recomputed_layers_until_the_forward_pass_is_over() -> None:
    casts, none = (
        memory_use(replace(llama(), vocab=16), Batch(sequence=512, sequences=1), Layout(recompute=Recompute.FULL), foot)
        for foot in (Footprint(cast_bytes=2.0), Footprint())
    )
    one_layer = none.activations_bytes - 32 * 512 * 4096 * 2 - 2 * 2 * 512 * 4096
    expected = none.activations_bytes - one_layer + 2 * 32 * layer_parameters(llama()).total + 2 * 16 * 4096
    assert casts.activations_bytes == pytest.approx(expected)


def test_masks_of_dropout_are_as_large_as_the_software_makes_them() -> None:
    gpu, cpu = (
        memory_use(llama(), BATCH, Layout(flash=0), Footprint(dropout=1.0, mask_bytes=mask)).activations_bytes
        for mask in (1.0, 4.0)
    )
    masked = 32 * 4096 * (2 * 4096 + 32 * 4096)  # after both parts of a layer, and of its scores
    assert cpu - gpu == pytest.approx(3 * masked)


def test_zero_3_gathers_the_head_for_the_loss() -> None:
    few, many = (
        memory_use(replace(llama(), vocab=vocab), BATCH, Layout(dp=8, zero=3), "").gathers_bytes
        for vocab in (1000, 2000)
    )
    assert many - few == pytest.approx(1000 * 4096 * (2 + 2))


def test_the_step_of_the_optimizer_can_be_the_peak() -> None:
    short = Batch(sequence=16, sequences=1)
    plain, loop = (memory_use(llama(), short, Layout(), Footprint(step_bytes=each)) for each in (4.0, 0.0))
    parameters = count_parameters(llama()).total
    assert plain.temporaries_bytes == pytest.approx(4 * parameters)
    assert float(plain.allocated_bytes) == pytest.approx(20 * parameters)
    assert float(loop.allocated_bytes) < 16.1 * parameters


def test_allocated_is_part_of_reserved_is_part_of_the_peak() -> None:
    use = memory_use(llama(), BATCH, Layout(dp=8, tp=2), "")
    assert use.allocated_bytes < use.reserved_bytes < use.peak_bytes


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UsageError, match="No memory footprint of the number format 'fp5'"):
        footprint("nanotron", "fp5")


LAYOUTS = st.fixed_dictionaries(
    {
        "dp": st.sampled_from([1, 2, 8, 64]),
        "tp": st.sampled_from([1, 2, 8]),
        "pp": st.sampled_from([1, 2, 4, 8]),
        "zero": st.sampled_from([0, 1, 2, 3]),
        "micro_batch": st.sampled_from([1, 2, 4]),
        "recompute": st.sampled_from([0, 1, 2]),
        "chunks": st.sampled_from([1, 2]),
        "sequence_parallel": st.sampled_from([0, 1]),
    }
)


@given(LAYOUTS, st.sampled_from(["", "nanotron", "bigscience", "torchtitan"]))
def test_more_work_on_a_device_never_needs_less_memory(row: dict[str, float], stack: str) -> None:
    batch = Batch(sequence=4096, sequences=1024)
    peak = memory_use(llama(), batch, Layout(**row), stack).peak_bytes
    larger = memory_use(llama(), batch, Layout(**{**row, "micro_batch": row["micro_batch"] * 2}), stack).peak_bytes
    deeper = memory_use(llama(layers=64), batch, Layout(**row), stack).peak_bytes
    whole = memory_use(llama(), batch, Layout(**{**row, "zero": 0}), stack)
    divided = memory_use(llama(), batch, Layout(**{**row, "zero": 1}), stack)
    assert larger >= peak
    assert deeper >= peak
    assert divided.peak_bytes <= whole.peak_bytes


@settings(max_examples=20, deadline=None)
@given(st.lists(LAYOUTS, min_size=2, max_size=5), st.sampled_from(["", "nanotron"]))
def test_columns_give_what_each_row_gives_alone(rows: list[dict[str, float]], stack: str) -> None:
    columns = Layout(**{name: np.array([row[name] for row in rows], np.float64) for name in rows[0]})
    together = memory_use(llama(), BATCH, columns, stack)
    for at, row in enumerate(rows):
        alone = memory_use(llama(), BATCH, Layout(**row), stack)
        for field in fields(MemoryUse):
            assert getattr(together, field.name)[at] == pytest.approx(float(getattr(alone, field.name)))


def test_many_layouts_take_little_time_each() -> None:
    import time

    count = 8192
    columns = {"dp": np.full(count, 8.0), "tp": np.full(count, 4.0), "pp": np.full(count, 2.0)}
    start = time.perf_counter()
    memory_use(llama(), BATCH, Layout(**columns, zero=np.full(count, 1.0)), "nanotron")
    assert count / (time.perf_counter() - start) > 50_000  # half a million on an idle core


@pytest.mark.parametrize(("sequence", "sequences", "dp", "cp"), [(8192, 2048, 128, 1), (131_072, 128, 8, 16)])
def test_llama_3_405b_fits_as_it_was_trained(sequence: int, sequences: int, dp: int, cp: int) -> None:
    """The Llama 3 Herd of Models (arXiv 2407.21783), table 4: 16,384 H100 of 80 GB, nothing computed again, gradients
    and optimizer states sharded, weights not after the forward pass, eight pieces of layers per stage.
    """
    batch = Batch(sequence=sequence, sequences=sequences)
    layout = Layout(dp=dp, tp=8, pp=16, cp=cp, zero=2, chunks=8, sequence_parallel=1)
    use = memory_use(known_model("llama-3.1-405b"), batch, layout, "torchtitan")
    assert oom_probability(use.peak_bytes, 80e9, "torchtitan") < 0.02


def test_uneven_pipelines_are_fullest_after_the_first_stage() -> None:
    """61 layers in 16 stages: three in the first and in the last, four in the second."""
    first, second, last = memory_stages(replace(llama(61)), BATCH, Layout(pp=16), 0.0)
    assert (float(first.layers), float(second.layers), float(last.layers)) == (3, 4, 3)
    assert (float(first.embedding), float(second.embedding), float(last.head)) == (1, 0, 1)


def test_tensor_parallel_devices_send_their_own_tokens_to_whole_experts() -> None:
    sparse = replace(llama(), dense_layers=0, moe_layers=32, experts=8, experts_per_token=2, expert_ffn=14336)
    split = {"dp": 8, "tp": 4, "ep": 8, "sequence_parallel": 1, "zero": 1}
    whole = memory_use(sparse, BATCH, Layout(**split, expert_tp=1), "")
    cut = memory_use(sparse, BATCH, Layout(**split, expert_tp=4), "")
    assert whole.weights_bytes > cut.weights_bytes  # a whole expert, and copies of it to split its states over
    assert whole.activations_bytes < cut.activations_bytes  # tokens of others are gathered for a cut one
    assert whole.optimizer_bytes == pytest.approx(cut.optimizer_bytes)


def test_compiled_layers_keep_neither_results_of_norms_nor_of_a_gate() -> None:
    plain, compiled = (
        float(memory_use(llama(), BATCH, Layout(), Footprint(compiled=value)).activations_bytes) for value in (0.0, 1.0)
    )
    assert plain - compiled == pytest.approx(32 * 4096 * 2 * (2 * 4096 + 14336))


def test_recomputation_by_operators_keeps_attention_and_every_second_matmul() -> None:
    """Of a layer: its input, queries, values, result and logarithms of attention, the gate, and what leaves it."""
    kept = _kept_of(Footprint(by_operator=1.0))
    assert kept == pytest.approx(32 * 4096 * (2 * (4096 * 4 + 1024 + 14336) + 4 * 32))


def _kept_of(foot: Footprint) -> float:
    return float(memory_use(llama(), BATCH, Layout(recompute=Recompute.SELECTIVE), foot).activations_bytes) - TAIL
