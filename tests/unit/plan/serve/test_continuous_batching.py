"""What serving costs: known figures, roofs that nothing may pass, and what must never get worse."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.plan.serving_errors import constant_columns
from redline.errors import UsageError
from redline.hardware.catalogue import record
from redline.hardware.machine import Machine
from redline.model.huggingface import describe
from redline.model.model import Model
from redline.plan.serve.forward_passes import (
    ServeOutcome,
    ServingLimit,
    cache_bytes,
    decode_pass,
    expert_share_touched,
    most_sequences,
    numbers,
    peak_flops,
    prompt_pass,
    weights_bytes,
)
from redline.plan.serve.plan import serve
from redline.plan.serve.setup import (
    FORMATS,
    Deployment,
    Setup,
    Traffic,
    constants_of,
    device_of,
    format_named,
    stacked,
)

LLAMA_405B = describe(layers=126, hidden=16384, heads=128, kv_heads=8, head_dim=128, ffn=53248, vocab=128256)
MIXTURE = describe(
    layers=48, hidden=2048, heads=32, kv_heads=4, head_dim=128, ffn=0, vocab=151936, dense_layers=0, moe_layers=48,
    experts=128, experts_per_token=8, expert_ffn=768,
)  # fmt: skip
LATENT = describe(
    layers=61, hidden=7168, heads=128, kv_heads=128, head_dim=192, value_dim=128, ffn=18432, vocab=129280, q_rank=1536,
    kv_rank=512, rope_dim=64, dense_layers=3, moe_layers=58, experts=256, experts_per_token=8, expert_ffn=2048,
    shared_ffn=2048,
)  # fmt: skip


def machine(name: str) -> Machine:
    found = record(name)
    assert found is not None
    return found


def setup(
    model: Model = LLAMA_405B,
    *,
    form: str = "fp8",
    gpu: str = "MI300X",
    tp: float = 8,
    engine: str = "vLLM",
    **where: float,
) -> Setup:
    return Setup(
        model=model,
        form=format_named(form),
        where=Deployment(tp=tp, **where),
        device=device_of(machine(gpu)),
        engine=constants_of(engine, gpu),
    )


def test_405b_on_8_mi300x_takes_three_times_what_reading_its_weights_takes() -> None:
    """Published: 27.6 ms per token at batch 1, where weights at full bandwidth alone would take 9.6."""
    step = serve(setup(), Traffic(concurrency=1, prompt=128, output=128)).step
    weights_s = 405.85e9 / 8 / 5.3e12
    assert step.total_s[0] == pytest.approx(27.6e-3, rel=0.1)
    assert 9.5e-3 < weights_s < 9.7e-3
    assert np.argmax(np.stack(step.parts), axis=0)[0] == ServingLimit.MEMORY


@pytest.mark.parametrize(("batch", "latency_s"), [(1, 3.53), (8, 3.974), (64, 6.919), (128, 10.34), (256, 17.75)])
def test_latency_of_405b_on_8_mi300x_by_batch(batch: float, latency_s: float) -> None:
    outcome = serve(setup(), Traffic(concurrency=batch, prompt=128, output=128, requests=batch))
    assert outcome.latency_s[0] == pytest.approx(latency_s, rel=0.1)


def test_parts_of_a_time_add_up() -> None:
    outcome = serve(setup(), Traffic(concurrency=64, prompt=1000, output=1000))
    for each in (outcome.step, outcome.prompt):
        assert sum(part[0] for part in each.parts) == pytest.approx(each.total_s[0])
    assert np.argmax(np.stack(outcome.prompt.parts), axis=0)[0] == ServingLimit.COMPUTE


def test_weights_by_format() -> None:
    """A 405B model: 811 GB in 16 bits; about half and a third of that in fp8 and nvfp4, whose ends stay in 16 bits."""
    one = {form: weights_bytes(setup(form=form, tp=1))[0] for form in FORMATS}
    assert one["bf16"] == pytest.approx(811.7e9, rel=0.001)
    assert one["fp8"] == pytest.approx(410e9, rel=0.001)
    assert one["nvfp4"] == pytest.approx(234.9e9, rel=0.01)
    assert one["int4"] == pytest.approx(405.85e9 * 0.625, rel=0.001)
    assert weights_bytes(setup(form="bf16", tp=8))[0] == pytest.approx(811.7e9 / 8, rel=0.001)


def test_caches_by_kind_of_attention() -> None:
    """Grouped: 8 heads split over 8 devices, copied beyond. A latent is copied to all."""
    assert cache_bytes(setup(tp=1), 1)[0] == 126 * 8 * 256 * 2
    assert cache_bytes(setup(tp=8), 1)[0] == cache_bytes(setup(tp=16), 1)[0] == 126 * 256 * 2
    assert cache_bytes(setup(LATENT, tp=1), 1)[0] == cache_bytes(setup(LATENT, tp=8), 1)[0] == 61 * 576 * 2
    windowed = describe(layers=4, hidden=64, heads=4, vocab=100, window=128, window_layers=2)
    assert cache_bytes(setup(windowed, tp=1), 1000)[0] == 2 * 128 * 2 * (1000 + 128)


def test_states_take_the_same_room_at_any_length() -> None:
    mixed = describe(
        layers=4, hidden=64, heads=4, vocab=100, state_layers=4, attention_layers=0, state_inner=128, state_size=16
    )
    assert cache_bytes(setup(mixed, tp=1), 10)[0] == cache_bytes(setup(mixed, tp=1), 10_000)[0] == 4 * 128 * 16 * 4


def test_a_model_that_is_too_large_does_not_fit() -> None:
    outcome = serve(setup(form="bf16", tp=2), Traffic(concurrency=1, prompt=128, output=128))
    assert (outcome.fits[0], outcome.most[0]) == (0, 0)
    assert serve(setup(form="bf16", tp=8), Traffic(concurrency=1, prompt=128, output=128)).fits[0] == 1


def test_memory_limits_the_batch_and_the_rest_queue() -> None:
    traffic = Traffic(concurrency=100_000, prompt=2048, output=2048)
    outcome = serve(setup(tp=8), traffic)
    assert outcome.batch[0] == outcome.most[0] == np.floor(most_sequences(setup(tp=8), 4096))[0]
    assert outcome.ttft_s[0] > 10 * serve(setup(tp=8), replace(traffic, concurrency=outcome.most[0])).ttft_s[0]


def test_best_fills_memory() -> None:
    traffic = Traffic(concurrency=1, prompt=2048, output=2048)
    assert serve(setup(), replace(traffic, concurrency=np.inf)).batch[0] == serve(setup(), traffic).most[0]


def test_expected_experts() -> None:
    """One token needs its own; two of 8 that choose 2 each need 8 (1 - (6/8)^2) = 3.5; very many need all."""
    assert expert_share_touched(8, 2, np.array([1.0, 2.0, 1e6])) * 8 == pytest.approx([2, 3.5, 8])
    assert expert_share_touched(0, 0, 5)[0] == 0


def test_experts_are_read_as_far_as_they_are_touched() -> None:
    small = decode_pass(setup(MIXTURE, form="bf16", tp=1), 1, 100).memory_s
    large = decode_pass(setup(MIXTURE, form="bf16", tp=1), 64, 100).memory_s
    assert 5 < large[0] / small[0] < 14  # 8 of 128 experts at first, nearly all of them then


def test_attention_data_parallel_gives_latents_more_room() -> None:
    """Each device has the whole latent of its own sequences only."""
    split, copied = setup(LATENT, gpu="H200-SXM"), setup(LATENT, gpu="H200-SXM", attention_dp=8)
    assert weights_bytes(copied)[0] > weights_bytes(split)[0]
    assert most_sequences(copied, 4096)[0] > 5 * most_sequences(split, 4096)[0]


def test_a_pipeline_delivers_more_than_its_stages_in_turn() -> None:
    """Two stages of 8 devices hold twice the model; each token passes both, while both work."""
    traffic = Traffic(concurrency=256, prompt=500, output=500)
    one, two = serve(setup(), traffic), serve(setup(pp=2), traffic)
    assert one.tokens_per_s[0] < two.tokens_per_s[0] < 2.2 * one.tokens_per_s[0]
    assert weights_bytes(setup(pp=2))[0] < 0.6 * weights_bytes(setup())[0]


def test_a_last_wave_that_is_not_full_costs_throughput() -> None:
    endless = serve(setup(), Traffic(concurrency=100, prompt=128, output=512))
    ragged = serve(setup(), Traffic(concurrency=100, prompt=128, output=512, requests=110))
    even = serve(setup(), Traffic(concurrency=100, prompt=128, output=512, requests=200))
    assert ragged.tokens_per_s[0] < 0.75 * endless.tokens_per_s[0]
    assert even.tokens_per_s[0] == pytest.approx(endless.tokens_per_s[0])


def test_long_prompts_are_passed_in_chunks() -> None:
    engine = setup().engine
    whole = serve(replace(setup(), engine=replace(engine, chunk=1e9)), Traffic(concurrency=1, prompt=32768, output=2))
    cut = serve(setup(), Traffic(concurrency=1, prompt=32768, output=2))
    assert cut.prompt.overhead_s[0] == pytest.approx(4 * whole.prompt.overhead_s[0])
    assert cut.prompt.compute_s[0] == pytest.approx(whole.prompt.compute_s[0], rel=0.01)


def test_messages() -> None:
    with pytest.raises(UsageError, match="there is no number format 'fp3' to serve in"):
        format_named("fp3")
    with pytest.raises(UsageError, match="there is no number format 'int2' for the cache"):
        format_named("fp8", "int2")
    with pytest.raises(UsageError, match="there are no constants for an engine 'mine'"):
        constants_of("mine", "B200-SXM")
    with pytest.raises(UsageError, match="so serving cannot be planned"):
        device_of(Machine(name="toy"))


def test_an_engine_on_an_unknown_gpu_has_its_constants_over_all() -> None:
    assert constants_of("SGLang", "L40S") not in [constants_of("SGLang", gpu) for gpu in ("B200-SXM", "MI300X")]


# --- properties -------------------------------------------------------------------------------------------------------

SETUPS = st.builds(
    setup,
    st.sampled_from([LLAMA_405B, MIXTURE, LATENT]),
    form=st.sampled_from(["bf16", "fp8", "nvfp4"]),
    gpu=st.sampled_from(["H200-SXM", "B200-SXM", "MI300X", "A100-SXM4-80GB"]),
    tp=st.sampled_from([1.0, 2.0, 8.0]),
    engine=st.sampled_from(["SGLang", "TensorRT-LLM", "vLLM"]),
)
LENGTHS = st.integers(1, 20_000).map(float)


@given(SETUPS, LENGTHS, LENGTHS, st.integers(1, 2000), st.floats(1.01, 4))
def test_more_bandwidth_is_never_slower(which: Setup, prompt: float, output: float, flying: int, more: float) -> None:
    traffic = Traffic(concurrency=float(flying), prompt=prompt, output=output)
    for name in ("memory_bytes_per_s", "peak_bf16", "peak_fp8", "peak_fp4", "link_bytes_per_s"):
        faster = replace(which, device=replace(which.device, **{name: getattr(which.device, name) * more}))
        slow, fast = serve(which, traffic), serve(faster, traffic)
        assert fast.tpot_s[0] <= slow.tpot_s[0] * (1 + 1e-9)
        assert fast.tokens_per_s[0] >= slow.tokens_per_s[0] * (1 - 1e-9)


@given(SETUPS, LENGTHS, LENGTHS)
def test_more_in_flight_is_never_less_throughput(which: Setup, prompt: float, output: float) -> None:
    flying = np.array([2.0**power for power in range(13)])
    outcome = serve(which, Traffic(concurrency=flying, prompt=prompt, output=output))
    assert np.all(np.diff(outcome.tokens_per_s) >= -1e-9 * outcome.tokens_per_s[1:])
    assert np.all(np.diff(outcome.tpot_s) >= -1e-9 * outcome.tpot_s[1:])


@given(SETUPS, LENGTHS, st.integers(1, 2000))
def test_nothing_is_faster_than_the_roofline(which: Setup, context: float, batch: int) -> None:
    """Every step reads what one token needs, and does the arithmetic of all of them, at most at the machine's best."""
    n, tp = numbers(which.model), which.where.tp
    step = decode_pass(which, float(batch), context)
    read = (n.attention + n.dense) / tp * which.form.layer_bytes + cache_bytes(which, context) * batch
    assert step.total_s[0] >= (read / which.device.memory_bytes_per_s)[0]
    flops = 2 * (n.attention + n.dense) * context / tp
    assert prompt_pass(which, context, context).total_s[0] >= (flops / peak_flops(which))[0]


def test_columns_are_the_same_as_single_setups() -> None:
    each = [
        setup(),
        setup(LATENT, form="nvfp4", gpu="B200-SXM", tp=4, engine="SGLang", attention_dp=4),
        setup(MIXTURE, form="mxfp4", gpu="H200-SXM", tp=2, engine="TensorRT-LLM", pp=2),
    ]
    traffic = [Traffic(concurrency=c, prompt=p, output=o, requests=r) for c, p, o, r in
               [(1, 128, 128, 0), (64, 4000, 500, 320), (np.inf, 1000, 2000, 3000)]]  # fmt: skip
    together = serve(
        Setup(
            model=Model(**_columns([one.model for one in each])),
            form=stacked([one.form for one in each]),
            where=Deployment(**_columns([one.where for one in each])),
            device=type(each[0].device)(**_columns([one.device for one in each])),
            engine=constant_columns(["vLLM", "SGLang", "TensorRT-LLM"], ["MI300X", "B200-SXM", "H200-SXM"]),
        ),
        Traffic(**_columns(traffic)),
    )
    for at, (one, load) in enumerate(zip(each, traffic, strict=True)):
        alone = serve(one, load)
        for name in (f.name for f in fields(ServeOutcome) if f.name not in ("step", "prompt")):
            assert getattr(together, name)[at] == pytest.approx(getattr(alone, name)[0], rel=1e-12), name
        assert together.step.total_s[at] == pytest.approx(alone.step.total_s[0], rel=1e-12)


def _columns(values: list[Any]) -> dict[str, Any]:
    names = [f.name for f in fields(values[0]) if f.name != "name"]
    return {name: np.array([getattr(value, name) for value in values], dtype=np.float64) for name in names}
