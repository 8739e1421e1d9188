"""Plans for tests of how they are shown. Every number is made up: nothing was predicted."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from bench.plan.validation import (
    HELD_OUT,
    LEFT_OUT,
    SPECULATIVE,
    Accuracy,
    Choice,
    ChoiceLoss,
    FitVerdicts,
    LeftOut,
    LeftOutAccuracy,
    LeftOutGroup,
    MemoryAccuracy,
    PeakAccuracy,
    PeerAccuracy,
    Scatter,
    ServingAccuracy,
    StepAccuracy,
    Validation,
)
from redline.hardware.catalogue import record
from redline.hardware.machine import Machine
from redline.model.huggingface import describe
from redline.model.model import Model
from redline.plan.job import JobCost, JobRequest, ThreePointEstimate, whole_job
from redline.plan.serve.forward_passes import MeasuredEngine, MeasuredStep
from redline.plan.serve.serving_plan import (
    Ranged,
    Repeats,
    ServingEvidence,
    ServingPlan,
    ServingPoint,
    ServingSituation,
)
from redline.plan.serve.setup import Constants
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.search.plan import Candidate, TrainingPlan
from redline.plan.train.search.plan_trust import MeasuredAccuracy, Situation, Trust
from redline.plan.train.search.search import Alternative, Change
from redline.plan.train.stacks import rates_of
from redline.plan.train.step_cost import MemoryUse, StepTime
from redline.plan.train.time.step import Overlap
from redline.plan.train.time.step_costs import StepCosts
from redline.plan.train.training_choices import PipelineSchedule, Recompute
from redline.plan.train.workload import Transformer

TOKENS = 4_194_304
DEVICES = 64
LAYOUT = Layout(
    dp=8, tp=4, pp=2, chunks=4, zero=1, sequence_parallel=1, micro_batch=2, recompute=Recompute.SELECTIVE
)  # fmt: skip


def number(value: float) -> Any:
    """Of one row, in the place of a column."""
    return np.float64(value)


def llama() -> Model:
    return describe(
        name="Llama-3-8B", layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256, dense_layers=32
    )  # fmt: skip


def h100() -> Machine:
    found = record("H100-SXM5-80GB")
    assert found is not None
    return found


def step_time(scale: float = 1.0, **more: float) -> StepTime:
    parts = {
        "compute_s": 1.32, "recompute_s": 0.08, "host_s": 0.0, "head_s": 0.07, "tensor_s": 0.21, "context_s": 0.0,
        "expert_s": 0.0, "pipeline_s": 0.02, "bubble_s": 0.11, "gather_s": 0.0, "reduce_s": 0.05, "optimizer_s": 0.015,
        "offload_s": 0.0,
    }  # fmt: skip
    return StepTime(**{name: number(scale * value) for name, value in (parts | more).items()})


def memory_use(scale: float = 1.0) -> MemoryUse:
    gigabytes = {
        "weights_bytes": 4.0, "gradients_bytes": 4.0, "optimizer_bytes": 1.5, "activations_bytes": 31.0,
        "head_bytes": 4.2, "gathers_bytes": 0.5, "temporaries_bytes": 0.2, "communicators_bytes": 1.5,
        "allocator_bytes": 3.1,
    }  # fmt: skip
    return MemoryUse(**{name: number(scale * value * 1e9) for name, value in gigabytes.items()})


def candidate(layout: Layout = LAYOUT, *, slower: float = 1.0, fuller: float = 1.0, chance: float = 0.004) -> Candidate:
    time, memory = step_time(slower), memory_use(fuller)
    step_s, peak_bytes = float(time.step_s), float(memory.peak_bytes)
    return Candidate(
        layout=layout,
        micro_batches=8,
        time=time,
        step_s=step_s,
        step_low_s=0.93 * step_s,
        step_high_s=1.09 * step_s,
        tokens_per_s=TOKENS / step_s,
        mfu=0.445 / slower,
        memory=memory,
        peak_bytes=peak_bytes,
        peak_low_bytes=0.92 * peak_bytes,
        peak_high_bytes=1.1 * peak_bytes,
        chance=chance,
    )


def step_costs() -> StepCosts[float]:
    return StepCosts[float](**dict.fromkeys(StepCosts.__dataclass_fields__, 1.0))


def alternatives() -> tuple[Alternative, ...]:
    def one(dimension: str, value: int, slower: float, cause: str, grown: float, **more: Any) -> Alternative:
        layout = replace(LAYOUT, **{dimension: value}, **more.pop("layout", {}))
        given = {"fits": True, "grown_s": 0.3 * slower, **more}
        return Alternative(
            dimension=dimension, value=value, layout=layout, slower=slower, cause=cause, grown=grown, **given
        )  # fmt: skip

    return (
        one("tp", 1, 1.1, "memory", 1.42, fits=False),
        one("tp", 2, 1.04, "bubble", 2.1),
        one("tp", 8, 1.12, "tensor", 2.2),
        one("tp", 16, 1.83, "tensor", 6.1),
        one("tp", 32, 3.4, "tensor", 14.0),
        one("pp", 1, 1.06, "reduce", 3.1),
        one("pp", 4, 1.08, "bubble", 1.9),
        one("zero", 3, 1.21, "gather", float("inf")),
        one("recompute", 0, 1.0, "memory", 1.11, fits=False),
        one("recompute", 2, 1.2, "recompute", 4.7),
        one("micro_batch", 1, 1.13, "host", float("inf")),
        one("micro_batch", 4, 1.0, "memory", 1.2, fits=False),
        one("schedule", int(PipelineSchedule.ZERO_BUBBLE), 1.002, "bubble", 1.1),
    )


def changes() -> tuple[Change, ...]:
    bigger = replace(LAYOUT, recompute=Recompute.NONE, micro_batch=4)
    return (
        Change(what="memory", factor=1.5, layout=bigger, faster=1.07, differs=True),
        Change(what="network", factor=2.0, layout=LAYOUT, faster=1.02, differs=False),
        Change(what="links", factor=2.0, layout=LAYOUT, faster=1.06, differs=False),
        Change(what="compute", factor=2.0, layout=replace(LAYOUT, tp=2, dp=16), faster=1.55, differs=True),
        Change(what="host", factor=0.5, layout=LAYOUT, faster=1.0, differs=False),
    )


def overlaps() -> tuple[Overlap, ...]:
    return (
        Overlap(kind="data", compute_s=0.09, traffic_s=0.031, exposed_s=0.05),
        Overlap(kind="tensor", compute_s=0.0021, traffic_s=0.0009, exposed_s=0.21),
        Overlap(kind="pipeline", compute_s=0.011, traffic_s=0.0004, exposed_s=0.0),
    )


def plan(**more: Any) -> TrainingPlan:
    best = candidate()
    others = (
        candidate(replace(LAYOUT, pp=1, dp=16, chunks=1), slower=1.06, fuller=1.1, chance=0.03),
        candidate(replace(LAYOUT, tp=8, dp=4), slower=1.12, fuller=0.8, chance=0.0001),
        candidate(replace(LAYOUT, recompute=Recompute.FULL), slower=1.2, fuller=0.6, chance=0.0),
    )
    given: dict[str, Any] = {
        "workload": Transformer(llama()), "parameters": 8_030_261_248, "active_parameters": 8_030_261_248,
        "flops_per_step": 2.1e17,
        "machine": h100(), "dtype": "bf16", "stack": "megatron", "devices": DEVICES, "devices_per_node": 8,
        "device_bytes": 80e9, "batch": Batch(sequence=8192, sequences=512), "by": "speed", "accepted_chance": 0.2,
        "considered": 12_480, "fitting": 4_311, "best": best, "safer": None, "step_costs": step_costs(),
        "rates": rates_of(h100()), "ranked": (best, *others),
        "frontier": (best, *others[1:]), "overlaps": overlaps(), "alternatives": alternatives(), "changes": changes(),
        "evidence": (
            MeasuredAccuracy(
                what="step", stack="megatron", situation="model", rows=214, groups=9, median=0.041, p90=0.132
            ),
            MeasuredAccuracy(
                what="memory", stack="all", situation="stack", rows=905, groups=1, median=0.066, p90=0.181
            ),
        ),
        "trust": Trust(situations=(Situation.MODEL,), low=0.9, high=1.15, runs=214, users=53, profile_error=0.0),
    }  # fmt: skip
    return TrainingPlan(**given | more)


def nothing_fits() -> TrainingPlan:
    """One GPU is far too small."""
    best = candidate(Layout(recompute=Recompute.FULL), fuller=2.5, chance=0.9999)
    memory = replace(best.memory, optimizer_bytes=number(96e9))
    best = replace(best, memory=memory, peak_bytes=float(memory.peak_bytes), step_s=12.4)
    return plan(
        devices=1, fitting=0, best=best, ranked=(), frontier=(), overlaps=(), alternatives=(), changes=(),
        evidence=(), trust=Trust(situations=(), low=0.5, high=2.0, runs=0, users=0, profile_error=0.0),
    )  # fmt: skip


def job(tokens: float = 15e12, **more: Any) -> JobCost:
    best = candidate()
    given = {"price_per_device_hour": 2.5, "device_power_w": 700.0, **more}
    step_s = ThreePointEstimate(best.step_low_s, best.step_s, best.step_high_s)
    return whole_job(JobRequest(step_s=step_s, tokens_per_step=TOKENS, tokens=tokens, devices=DEVICES, **given))


# --- serving ----------------------------------------------------------------------------------------------------------


def ranged(value: float) -> Ranged:
    return Ranged(value=value, low=0.8 * value, high=1.3 * value)


def point(tp: int = 2, load: int = 16, dtype: str = "fp8", **more: Any) -> ServingPoint:
    """A user gets less the more requests there are, a device more."""
    tpot_s = 0.02 / tp + 0.0005 * load
    given: dict[str, Any] = {
        "tp": tp, "attention_dp": 1, "dtype": dtype, "concurrency": load, "batch": min(float(load), 200.0),
        "most": 200.0, "copies": 64 // tp, "ttft_s": ranged(0.2 + 0.001 * load), "tpot_s": ranged(tpot_s),
        "latency_s": Ranged(value=0.2 + 256 * tpot_s), "tokens_per_s": ranged(load / tpot_s),
        "step_s": (0.0, tpot_s * 0.8, tpot_s * 0.1, tpot_s * 0.1), "prompt_s": (0.1, 0.001, 0.02, 0.03),
        "weights_bytes": 70e9 / tp, "cache_bytes": 0.2e9 * load / tp, "meets": tpot_s <= 0.025,
    }  # fmt: skip
    return ServingPoint(**given | more)


def serving_plan(**more: Any) -> ServingPlan:
    points = tuple(point(tp, load) for tp in (2, 4) for load in (1, 16, 64, 256))
    copied = point(8, 64, attention_dp=8)
    given: dict[str, Any] = {
        "model": replace(llama(), name="Llama-3-70B"), "parameters": int(70.6e9), "active_parameters": int(70.6e9),
        "machine": h100(), "device_bytes": 80e9, "engine": "SGLang", "measured_here": True, "cache_dtype": "bf16",
        "prompt": 1024, "output": 256, "devices": 64, "price": 2.5, "most_ttft_s": 0.5, "most_tpot_s": 0.025,
        "points": (*points, copied), "refused": ((1, "bf16", 141e9), (1, "fp8", 72.7e9)), "best": points[5],
        "frontier": (*points[4:7], points[3], copied), "evidence": (
            ServingEvidence(metric="tpot_s", engine="SGLang", rows=70, groups=9, median=0.11, p90=0.47),
            ServingEvidence(metric="ttft_s", engine="all", rows=68, groups=2, median=0.335, p90=1.74),
        ), "situation": ServingSituation.MODEL, "repeats": repeats(),
    }  # fmt: skip
    return ServingPlan(**given | more)


def measured_engine() -> MeasuredEngine:
    step = MeasuredStep(
        engine="vllm", model=llama(), steps=900, batch=4, context=300, model_s=0.02, around_s=0.003, peak_share=0.6,
        prompts=None, most_tokens=2048, most_sequences=64,
    )  # fmt: skip
    return MeasuredEngine(step=step, roof_s=0.009, constants=Constants())


# --- validation -------------------------------------------------------------------------------------------------------


def accuracy(name: str, runs: int = 100, scale: float = 1.0) -> Accuracy:
    return Accuracy(
        name=name, runs=runs, bias=-0.011 * scale, median=0.05 * scale, ninetieth=0.21 * scale, covered=0.79
    )  # fmt: skip


def choices() -> tuple[Choice, ...]:
    return tuple(
        Choice(model="1B", devices=devices, layouts=20, lost=lost)
        for devices, lost in ((8, 0.0), (64, 0.012), (512, 0.17))
    )


def validation() -> dict[str, Any]:
    kinds = tuple(accuracy(name, 40, 1.5) for name in ("experts", "fewer bits", "long"))
    step = StepAccuracy(
        dense=accuracy("dense", 1402),
        megatron=accuracy("megatron", 111, 0.7),
        stacks=(accuracy("megatron-core", 182), accuracy("nanotron", 390, 2.0)),
        kinds=kinds,
        everything=accuracy("everything", 1712),
        choice=ChoiceLoss(choices=choices(), median=0.012, ninetieth=0.17),
        expressible=0.96,
        siblings=0.984,
        reasons=(("the layout is not given", 68), ("the source contradicts itself", 14)),
    )
    peaks = tuple(
        PeakAccuracy(stack=name, rows=rows, bias=0.002, median=0.06, p90=0.17, covered=0.81)
        for name, rows in (("nanotron", 874), ("all", 933))
    )
    verdicts = FitVerdicts(
        accepted_chance=0.2, ran=879, failed=765, refused=161, false_fits=30, contradicted=6, false_refusals=44
    )  # fmt: skip
    serving = tuple(
        ServingAccuracy(
            engine="SGLang", metric=metric, group=group, rows=70, groups=groups, median=0.11, p90=0.48, bias=0.03,
            covered=covered,
        )
        for metric in ("tpot_s", "ttft_s")
        for group, groups, covered in (
            (HELD_OUT, 1, 0.8), *((name, 6, 0.81) for name in LEFT_OUT.values()), (SPECULATIVE, 1, None),
            ("B200-SXM", 1, 0.8),
        )
    )  # fmt: skip
    groups = (
        LeftOutGroup(
            engine="SGLang",
            situation=ServingSituation.MODEL,
            name="GLM-4.6",
            rows=12,
            bias={"tpot_s": 0.12, "ttft_s": -0.3},
        ),
        LeftOutGroup(
            engine="vLLM",
            situation=ServingSituation.GPU,
            name="H100",
            rows=4,
            bias={"latency_s": -0.05, "tokens_per_s": 0.2},
        ),
    )
    memory = MemoryAccuracy(peaks=peaks, left_out={"computed, not measured": 4}, verdicts=verdicts)
    made = Validation(
        left_out=left_out(), step=step, memory=memory, serving=serving, serving_groups=groups,
        first_token_repeats=repeats(), step_points=(scatter(),), memory_points=(scatter("jax", 3), scatter()),
        serving_points=(scatter("SGLang"),),
    )  # fmt: skip
    return dict(msgspec.to_builtins(made))


def repeats() -> Repeats:
    return Repeats(
        groups=18, rows=32, spread=0.33, median=0.27, p90=0.7, predicted_median=0.4, predicted_p90=1.2
    )  # fmt: skip


def left_out() -> LeftOut:
    every = tuple(left_out_accuracy(situation, "all", 1.0 + number / 2) for number, situation in enumerate(Situation))
    peer = PeerAccuracy(
        name="llm-analysis", runs=2790, median=0.46, ninetieth=0.83, own_median=0.19, own_ninetieth=0.47
    )
    return LeftOut(
        every=(*every, left_out_accuracy(Situation.MODEL, "experts", 3.0)),
        stacks=tuple(left_out_accuracy(Situation.MODEL, name, 1.0) for name in ("megatron-core", "nanotron")),
        peers=(peer,),
    )


def left_out_accuracy(situation: Situation, name: str, scale: float) -> LeftOutAccuracy:
    return LeftOutAccuracy(
        situation=situation, name=name, runs=3400, groups=12, bias=0.01 * scale, median=0.05 * scale,
        ninetieth=0.2 * scale, covered=0.8, nearest_median=0.08 * scale, nearest_ninetieth=0.5 * scale,
    )  # fmt: skip


def scatter(name: str = "nanotron", points: int = 20) -> Scatter:
    measured = np.geomspace(0.1, 100, points)
    predicted = measured * np.linspace(0.9, 1.2, points)
    return Scatter(name=name, measured=tuple(measured.tolist()), predicted=tuple(predicted.tolist()))
