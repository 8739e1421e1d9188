"""A layout as the arguments of Megatron-LM's `pretrain_gpt.py` (Megatron-Core 0.16)."""

from __future__ import annotations

from collections.abc import Iterator

from redline.model.model import Model
from redline.plan.train.layout import Layout
from redline.plan.train.search.plan import TrainingPlan
from redline.plan.train.training_choices import PipelineSchedule, Recompute
from redline.report.plan.launch.script import (
    LaunchScript,
    has_layer_norm,
    is_latent,
    layers_per_piece,
    model_of,
    plain_decoder_gaps,
    torchrun,
)

FP8, FP4 = ("--fp8-format", "hybrid"), ("--fp4-format", "e2m1")
PRECISION = {
    "bf16": ("--bf16",),
    "fp16": ("--fp16",),
    "fp8": ("--bf16", *FP8),
    "fp4": ("--bf16", *FP4),
    "fp32": (),
    "tf32": (),
}
SHARDED = {2: "optim_grads", 3: "optim_grads_params"}


def launch_script(plan: TrainingPlan) -> LaunchScript:
    model, layout = model_of(plan, "megatron"), plan.best.layout
    return LaunchScript(
        command=(
            *torchrun(plan),
            "pretrain_gpt.py",
            *_network(model),
            *_experts(model),
            *_batch(plan),
            *_parallel(model, layout),
            *_sharding(layout),
            *_recompute(layout),
            *PRECISION[plan.dtype],
            *("--attention-backend", "flash" if layout.flash else "unfused"),
            *("--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", f"{model.vocab:.0f}"),
            *("--train-iters", "20", "--lr", "3e-4"),
        ),
        # Megatron asks for this where tensor or context parallelism is used on GPUs before Blackwell.
        environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if layout.tp > 1 or layout.cp > 1 else {},
        not_expressed=_gaps(plan, model),
        fill_in="data and tokenizer in place of --mock-data and NullTokenizer; learning rate, steps, checkpoints",
    )


def _network(model: Model) -> Iterator[str]:
    yield from ("--num-layers", f"{model.layers:.0f}", "--hidden-size", f"{model.hidden:.0f}")
    yield from ("--ffn-hidden-size", f"{model.ffn:.0f}", "--num-attention-heads", f"{model.heads:.0f}")
    if is_latent(model):
        yield from _latent_attention(model)
    else:
        yield from ("--kv-channels", f"{model.head_dim:.0f}")
        if model.kv_heads != model.heads:
            yield from ("--group-query-attention", "--num-query-groups", f"{model.kv_heads:.0f}")
    yield from ("--position-embedding-type", "learned_absolute" if model.positions else "rope")
    yield from ("--normalization", "LayerNorm" if has_layer_norm(model) else "RMSNorm")
    if model.gated:
        yield "--swiglu"
    if not model.ffn_bias:
        yield "--disable-bias-linear"
        if model.attention_bias:
            yield "--add-qkv-bias"
    if not model.tied:
        yield "--untie-embeddings-and-output-weights"


def _latent_attention(model: Model) -> Iterator[str]:
    yield "--multi-latent-attention"
    if model.q_rank:
        yield from ("--q-lora-rank", f"{model.q_rank:.0f}")
    yield from ("--kv-lora-rank", f"{model.kv_rank:.0f}", "--qk-head-dim", f"{model.head_dim - model.rope_dim:.0f}")
    yield from ("--qk-pos-emb-head-dim", f"{model.rope_dim:.0f}", "--v-head-dim", f"{model.value_dim:.0f}")


def _experts(model: Model) -> Iterator[str]:
    if not model.experts:
        return
    yield from ("--num-experts", f"{model.experts:.0f}", "--moe-router-topk", f"{model.experts_per_token:.0f}")
    yield from ("--moe-ffn-hidden-size", f"{model.expert_ffn:.0f}")
    if model.shared_ffn:
        yield from ("--moe-shared-expert-intermediate-size", f"{model.shared_ffn:.0f}")
    if model.dense_layers:
        yield from ("--moe-layer-freq", f"([0]*{model.dense_layers:.0f}+[1]*{model.moe_layers:.0f})")
    yield from ("--moe-token-dispatcher-type", "alltoall", "--moe-grouped-gemm")


def _batch(plan: TrainingPlan) -> Iterator[str]:
    sequence = f"{plan.batch.sequence:.0f}"
    yield from ("--seq-length", sequence, "--max-position-embeddings", sequence)
    yield from ("--micro-batch-size", f"{plan.best.layout.micro_batch:.0f}")
    yield from ("--global-batch-size", f"{plan.batch.sequences:.0f}")


def _parallel(model: Model, layout: Layout) -> Iterator[str]:
    yield from ("--tensor-model-parallel-size", f"{layout.tp:.0f}")
    yield from ("--pipeline-model-parallel-size", f"{layout.pp:.0f}")
    if layout.pp > 1:
        yield from _stages(model, layout)
    if layout.cp > 1:
        yield from ("--context-parallel-size", f"{layout.cp:.0f}")
    if layout.ep > 1:
        yield from ("--expert-model-parallel-size", f"{layout.ep:.0f}")
    if model.experts and layout.tp > 1:
        yield from ("--expert-tensor-parallel-size", f"{layout.expert_tp or layout.tp:.0f}")
    if layout.sequence_parallel and layout.tp > 1:
        yield "--sequence-parallel"


def _stages(model: Model, layout: Layout) -> Iterator[str]:
    """Interleaving; and where layers do not divide evenly, which stage has how many."""
    pieces = layers_per_piece(model, layout)
    if len(set(pieces)) > 1:
        written = "|".join("t" * layers for layers in pieces)
        yield from ("--pipeline-model-parallel-layout", f"E{written}L")
    elif layout.chunks > 1:
        yield from ("--num-virtual-stages-per-pipeline-rank", f"{layout.chunks:.0f}")


def _sharding(layout: Layout) -> Iterator[str]:
    if not layout.zero:
        return
    yield from ("--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather")
    if layout.zero in SHARDED:
        yield from ("--use-megatron-fsdp", "--data-parallel-sharding-strategy", SHARDED[int(layout.zero)])
        yield from ("--no-gradient-accumulation-fusion", "--ckpt-format", "fsdp_dtensor")
    if layout.shard and layout.shard < layout.dp * layout.cp:
        yield from ("--num-distributed-optimizer-instances", f"{layout.dp * layout.cp / layout.shard:.0f}")
    if layout.offload:
        yield from ("--optimizer-cpu-offload", "--optimizer-offload-fraction", f"{layout.offload:g}")


def _recompute(layout: Layout) -> Iterator[str]:
    if layout.recompute == Recompute.SELECTIVE:
        yield from ("--recompute-granularity", "selective", "--recompute-modules", "core_attn")
    if layout.recompute == Recompute.FULL:
        yield from ("--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1")


def _gaps(plan: TrainingPlan, model: Model) -> Iterator[str]:
    layout = plan.best.layout
    yield from plain_decoder_gaps(model)
    if layout.pp > 1 and layout.schedule != PipelineSchedule.ONE_F_ONE_B:
        yield "the pipeline schedule: Megatron-LM runs 1F1B, interleaved or not"
    if layout.pp > 1 and layout.zero in SHARDED:
        yield "ZeRO-2 and ZeRO-3 beside a pipeline: gradients would be reduced for every micro-batch"
    if layout.offload and not layout.zero:
        yield "optimizer states in host memory without --use-distributed-optimizer"
