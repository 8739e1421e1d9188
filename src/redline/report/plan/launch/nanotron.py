"""A layout as a config of nanotron's `run_train.py` (nanotron 0.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from redline.model.model import Model
from redline.plan.train.layout import Layout
from redline.plan.train.search.plan import TrainingPlan
from redline.plan.train.training_choices import PipelineSchedule, Recompute
from redline.report.plan.launch.script import (
    LaunchScript,
    has_layer_norm,
    is_latent,
    model_of,
    plain_decoder_gaps,
    refuse_dimensions,
    torchrun,
    yaml_text,
)

CONFIG = "nanotron.yaml"
SIMPLE = (PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B)
WITHOUT = {"cp": "nanotron's config has no context parallelism"}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "tf32": "float32"}


def launch_script(plan: TrainingPlan) -> LaunchScript:
    model = model_of(plan, "nanotron")
    refuse_dimensions(plan.best.layout, "nanotron", WITHOUT)
    return LaunchScript(
        command=(*torchrun(plan), "run_train.py", "--config-file", CONFIG),
        config=(CONFIG, yaml_text(_config(plan, model))),
        environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1"},  # nanotron refuses to start without it
        not_expressed=_gaps(plan, model),
        fill_in="dataset and tokenizer; learning rate, steps, checkpoints",
    )


def _config(plan: TrainingPlan, model: Model) -> Mapping[str, Any]:
    layout = plan.best.layout
    return {
        "general": {"project": "redline-plan", "run": plan.workload.name, "seed": 42},
        "parallelism": {
            "dp": int(layout.dp),
            "tp": int(layout.tp),
            "pp": int(layout.pp),
            "expert_parallel_size": int(layout.ep),
            "pp_engine": "afab" if layout.schedule == PipelineSchedule.GPIPE else "1f1b",
            "tp_mode": "REDUCE_SCATTER" if layout.sequence_parallel else "ALL_REDUCE",
            "tp_linear_async_communication": bool(layout.sequence_parallel),
        },
        "model": {
            "dtype": DTYPES.get(plan.dtype, "bfloat16"),
            "init_method": {"std": 0.02},
            "model_config": _llama(plan, model),
        },
        "tokenizer": {"tokenizer_name_or_path": None},
        "tokens": {
            "sequence_length": int(plan.batch.sequence),
            "train_steps": 20,
            "micro_batch_size": int(layout.micro_batch),
            "batch_accumulation_per_replica": plan.best.micro_batches,
        },
        "optimizer": _optimizer(layout),
        "data": {"seed": 42, "num_loading_workers": 1, "dataset": None},
    }


def _llama(plan: TrainingPlan, model: Model) -> Mapping[str, Any]:
    return {
        "is_llama_config": True,
        "hidden_act": "silu",
        "hidden_size": int(model.hidden),
        "intermediate_size": int(model.ffn),
        "num_hidden_layers": int(model.layers),
        "num_attention_heads": int(model.heads),
        "num_key_value_heads": int(model.kv_heads),
        "max_position_embeddings": int(plan.batch.sequence),
        "tie_word_embeddings": bool(model.tied),
        "vocab_size": int(model.vocab),
    }


def _optimizer(layout: Layout) -> Mapping[str, Any]:
    return {
        "zero_stage": min(int(layout.zero), 1),
        "weight_decay": 0.01,
        "clip_grad": 1.0,
        "accumulate_grad_in_fp32": True,
        "adam_eps": 1e-8,
        "adam_beta1": 0.9,
        "adam_beta2": 0.95,
        "torch_adam_is_fused": True,
        "learning_rate_scheduler": {
            "learning_rate": 3e-4,
            "lr_warmup_steps": 1,
            "lr_warmup_style": "linear",
            "lr_decay_style": "cosine",
            "min_decay_lr": 3e-5,
        },
    }


def _gaps(plan: TrainingPlan, model: Model) -> Iterator[str]:
    layout = plan.best.layout
    yield from plain_decoder_gaps(model)
    if not model.gated or has_layer_norm(model) or is_latent(model) or model.experts:
        yield "the model: nanotron's config is that of a Llama"
    if layout.zero > 1:
        yield f"ZeRO-{layout.zero:.0f}: the config has ZeRO-1"
    if layout.pp > 1 and layout.chunks > 1:
        yield f"{layout.chunks:.0f} chunks per stage"
    if layout.pp > 1 and layout.schedule not in SIMPLE:
        yield "the pipeline schedule: the config has 1F1B"
    if layout.recompute != Recompute.NONE:
        yield "recomputation: it is set where nanotron builds the model"
    if plan.dtype not in DTYPES:
        yield f"{plan.dtype}: the config has bfloat16"
    if layout.offload:
        yield "optimizer states in host memory"
