"""A layout as a DeepSpeed config (DeepSpeed 0.19) and the command that starts a script with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from redline.plan.train.layout import Layout
from redline.plan.train.search.plan import TrainingPlan
from redline.plan.train.training_choices import Recompute
from redline.report.plan.launch.script import (
    LaunchScript,
    refuse_dimensions,
    torchrun,
)

CONFIG = "ds_config.json"
IN_CODE = {
    "pp": "DeepSpeed makes a pipeline in code, by deepspeed.pipe.PipelineModule",
    "ep": "DeepSpeed spreads experts in code, by deepspeed.moe.layer.MoE",
}


def launch_script(plan: TrainingPlan) -> LaunchScript:
    refuse_dimensions(plan.best.layout, "deepspeed", IN_CODE)
    return LaunchScript(
        command=(*torchrun(plan), "train.py", "--deepspeed", "--deepspeed_config", CONFIG),
        config=(CONFIG, json.dumps(_config(plan), indent=2)),
        not_expressed=_gaps(plan),
        fill_in="train.py, which calls deepspeed.initialize with this config; optimizer and learning rate",
    )


def _config(plan: TrainingPlan) -> Mapping[str, Any]:
    layout = plan.best.layout
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": int(layout.micro_batch),
        "gradient_accumulation_steps": plan.best.micro_batches,
        "gradient_clipping": 1.0,
        "zero_optimization": _zero(layout),
    }
    # DeepSpeed takes the product of the two above and its data-parallel ranks for the batch, and refuses another one.
    config["train_batch_size"] = int(layout.micro_batch) * plan.best.micro_batches * int(layout.dp)
    if layout.tp > 1:
        config["tensor_parallel"] = {"autotp_size": int(layout.tp)}
    if layout.cp > 1:
        config["sequence_parallel_size"] = int(layout.cp)
    if plan.dtype in ("bf16", "fp16"):
        config[plan.dtype] = {"enabled": True}
    return config


def _zero(layout: Layout) -> Mapping[str, Any]:
    zero: dict[str, Any] = {"stage": int(layout.zero)}
    if layout.zero:
        zero |= {"overlap_comm": True, "contiguous_gradients": True, "reduce_scatter": True}
    if layout.shard and layout.shard < layout.dp * layout.cp:
        zero["mics_shard_size"] = int(layout.shard)
    if layout.offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True, "ratio": float(layout.offload)}
    return zero


def _gaps(plan: TrainingPlan) -> Iterator[str]:
    layout = plan.best.layout
    if layout.tp > 1 and layout.zero == 3:
        yield "ZeRO-3 beside tensor parallelism: DeepSpeed trains with AutoTP up to ZeRO-2"
    if layout.cp > 1:
        yield "the kind of context parallelism: DeepSpeed's is Ulysses, and code calls it; the plan is of a ring"
    if layout.sequence_parallel and layout.tp > 1:
        yield "sequence parallelism"
    if layout.recompute != Recompute.NONE:
        yield "recomputation: model code calls it, such as model.gradient_checkpointing_enable()"
    if layout.offload and layout.offload < 1 and layout.zero < 3:
        yield "a share of the optimizer states in host memory: below ZeRO-3 DeepSpeed moves all or nothing"
    if plan.dtype not in ("bf16", "fp16", "fp32", "tf32"):
        yield f"{plan.dtype}: the model's own layers decide that"
