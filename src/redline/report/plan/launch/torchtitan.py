"""A layout as a config module of torchtitan (0.3), whose configs are Python functions."""

from __future__ import annotations

from collections.abc import Iterator

from redline.model.huggingface import SAME_SHAPE
from redline.plan.train.layout import Layout
from redline.plan.train.search.plan import TrainingPlan
from redline.plan.train.training_choices import PipelineSchedule, Recompute
from redline.report.plan.launch.script import LaunchScript, layers_per_piece, model_of, torchrun

MODULE = "planned"
CONFIGS = {
    "llama-3.1-8b": ("llama3", "llama3_8b"),
    "llama-3.1-70b": ("llama3", "llama3_70b"),
    "llama-3.1-405b": ("llama3", "llama3_405b"),
    "deepseek-v3": ("deepseek_v3", "deepseek_v3_671b"),
    "qwen3-0.6b": ("qwen3", "qwen3_0_6b"),
    "qwen3-1.7b": ("qwen3", "qwen3_1_7b"),
    "qwen3-14b": ("qwen3", "qwen3_14b"),
    "qwen3-32b": ("qwen3", "qwen3_32b"),
    "qwen3-30b-a3b": ("qwen3", "qwen3_30b_a3b"),
    "gpt-oss-20b": ("gpt_oss", "gpt_oss_20b"),
    "gpt-oss-120b": ("gpt_oss", "gpt_oss_120b"),
}
"""Functions of torchtitan that build the models that we know by name."""
STAND_IN = ("llama3", "llama3_debugmodel")
DTYPES = {"bf16": "bfloat16", "fp32": "float32", "tf32": "float32"}
POLICIES = {Recompute.SELECTIVE: "SelectiveAC", Recompute.FULL: "FullAC"}


def launch_script(plan: TrainingPlan) -> LaunchScript:
    model_of(plan, "torchtitan")
    return LaunchScript(
        command=(*torchrun(plan), "-m", "torchtitan.train", "--module", MODULE, "--config", "planned"),
        config=(f"{MODULE}.py", _module(plan)),
        environment={"PYTHONPATH": "."},
        not_expressed=_gaps(plan),
        fill_in="tokenizer (hf_assets_path), dataset, learning rate, steps: see the function that is imported",
    )


def _base(plan: TrainingPlan) -> tuple[str, str]:
    name = plan.workload.name
    return CONFIGS.get(SAME_SHAPE.get(name, name), STAND_IN)


def _module(plan: TrainingPlan) -> str:
    module, base = _base(plan)
    policy = POLICIES.get(Recompute(int(plan.best.layout.recompute)))
    used = f"from torchtitan.distributed.activation_checkpoint import {policy}\n" if policy else ""
    settings = "\n".join(f"    config.{name} = {value!r}" for name, value in _settings(plan))
    return (
        f"{used}from torchtitan.models.{module}.config_registry import {base}\n\n\n"
        "def planned():\n"
        f"    config = {base}()\n"
        f"{settings}\n"
        f"    config.activation_checkpoint = {f'{policy}.Config()' if policy else None}\n"
        "    return config\n"
    )


def _settings(plan: TrainingPlan) -> Iterator[tuple[str, object]]:
    layout, per_step = plan.best.layout, plan.best.micro_batches
    pipelined = int(layout.pp) > 1
    yield "training.seq_len", int(plan.batch.sequence)
    yield "training.global_batch_size", int(plan.batch.sequences)
    yield "training.local_batch_size", int(layout.micro_batch) * (per_step if pipelined else 1)
    yield "training.mixed_precision_param", DTYPES.get(plan.dtype, "bfloat16")
    replicated, sharded = _data_parallel(layout)
    yield "parallelism.data_parallel_replicate_degree", replicated
    yield "parallelism.data_parallel_shard_degree", sharded
    yield "parallelism.fsdp_reshard_after_forward", "always" if layout.zero == 3 else "never"
    yield "parallelism.tensor_parallel_degree", int(layout.tp)
    yield "parallelism.enable_sequence_parallel", bool(layout.sequence_parallel)
    yield "parallelism.context_parallel_degree", int(layout.cp)
    yield "parallelism.expert_parallel_degree", int(layout.ep)
    yield "parallelism.pipeline_parallel_degree", int(layout.pp)
    if pipelined or int(layout.ep) > 1:
        yield "training.disable_cuda_graphs", True  # torchtitan refuses them beside pipelines and most dispatchers
    if pipelined:
        yield from _pipeline(plan)


def _pipeline(plan: TrainingPlan) -> Iterator[tuple[str, object]]:
    layout = plan.best.layout
    yield "parallelism.pipeline_parallel_microbatch_size", int(layout.micro_batch)
    yield "parallelism.pipeline_parallel_schedule", _schedule(layout)
    pieces = layers_per_piece(model_of(plan, "torchtitan"), layout)
    if len(set(pieces)) == 1:
        yield "parallelism.pipeline_parallel_layers_per_stage", pieces[0]
        yield "parallelism.pipeline_parallel_first_stage_less_layers", 0
        yield "parallelism.pipeline_parallel_last_stage_less_layers", 0


def _schedule(layout: Layout) -> str:
    if layout.schedule == PipelineSchedule.GPIPE:
        return "GPipe"
    if layout.schedule == PipelineSchedule.DUALPIPE:
        return "DualPipeV"
    if layout.schedule == PipelineSchedule.ZERO_BUBBLE:
        return "InterleavedZeroBubble" if layout.chunks > 1 else "ZBVZeroBubble"
    return "Interleaved1F1B" if layout.chunks > 1 else "1F1B"


def _data_parallel(layout: Layout) -> tuple[int, int]:
    """Replicas that each hold all weights, and devices that share the weights of one."""
    dp = int(layout.dp)
    if not layout.zero:
        return dp, 1
    sharded = max(1, min(dp, int(layout.shard / layout.cp))) if layout.shard else dp
    return dp // sharded, sharded


def _gaps(plan: TrainingPlan) -> Iterator[str]:
    layout = plan.best.layout
    if _base(plan) == STAND_IN:
        yield f"the model: torchtitan has no config of {plan.workload.name}; put yours in place of {STAND_IN[1]}"
    if layout.zero in (1, 2) and layout.pp > 1:
        yield f"ZeRO-{layout.zero:.0f} beside a pipeline: fully_shard splits weights as well"
    elif layout.zero == 1:
        yield "ZeRO-1: fully_shard splits gradients as well"
    if layout.pp > 1 and layout.schedule == PipelineSchedule.ZERO_BUBBLE and layout.chunks == 1:
        yield "zero-bubble with one chunk per stage: ZBVZeroBubble has two"
    if layout.recompute == Recompute.SELECTIVE:
        yield "recomputation of attention alone: SelectiveAC keeps outputs of matmuls and recomputes the rest"
    if layout.offload:
        yield "optimizer states in host memory: enable_cpu_offload moves weights and gradients too"
    if plan.dtype not in DTYPES:
        yield f"{plan.dtype}: give converters to the model_registry of {_base(plan)[0]}"
