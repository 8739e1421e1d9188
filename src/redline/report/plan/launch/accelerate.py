"""A layout as a config of Hugging Face Accelerate (1.15) and the command that starts a script with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from redline.plan.train.layout import Layout
from redline.plan.train.search.plan import TrainingPlan
from redline.plan.train.training_choices import Recompute
from redline.report.plan.launch.script import (
    Cluster,
    LaunchScript,
    cluster_of,
    refuse_dimensions,
    yaml_text,
)

CONFIG = "accelerate.yaml"
MIXED = {"bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "fp32": "no", "tf32": "no"}
WITHOUT = {
    "pp": "Accelerate has pipelines for inference alone",
    "ep": "Accelerate has no expert parallelism",
}
SHARDS = "parallelism_config_dp_shard_size"
FILE, ACCUMULATION = "--config_file", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"


def launch_script(plan: TrainingPlan) -> LaunchScript:
    refuse_dimensions(plan.best.layout, "accelerate", WITHOUT)
    several = cluster_of(plan).nodes > 1
    where = ("--machine_rank", "$NODE_RANK", "--main_process_ip", "$MASTER_ADDR", "--main_process_port", "29500")
    return LaunchScript(
        command=("accelerate", "launch", FILE, CONFIG, *(where if several else ()), "train.py"),
        config=(CONFIG, yaml_text(_config(plan))),
        environment={ACCUMULATION: str(plan.best.micro_batches)},
        not_expressed=_gaps(plan),
        fill_in=f"train.py, whose DataLoader has batches of {plan.best.layout.micro_batch:.0f} and which trains under "
        "accelerator.accumulate(model)",
    )


def _config(plan: TrainingPlan) -> Mapping[str, Any]:
    layout, cluster = plan.best.layout, cluster_of(plan)
    config: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "mixed_precision": MIXED.get(plan.dtype, "bf16"),
        "num_machines": cluster.nodes,
        "num_processes": cluster.devices,
        "use_cpu": False,
    }
    return {**config, **_sharding(layout, plan, cluster)}


def _sharding(layout: Layout, plan: TrainingPlan, cluster: Cluster) -> Mapping[str, Any]:
    if _by_fsdp(layout):
        mesh = _mesh(layout)
        is_plain = all(size == 1 for name, size in mesh.items() if name != SHARDS)
        by_fsdp = {"distributed_type": "FSDP", "fsdp_config": _fsdp(layout)}
        return by_fsdp if is_plain else by_fsdp | {"parallelism_config": mesh}
    if layout.zero:
        return {"distributed_type": "DEEPSPEED", "deepspeed_config": _deepspeed(layout, plan)}
    return {"distributed_type": "MULTI_GPU" if cluster.devices > 1 else "NO"}


def _by_fsdp(layout: Layout) -> bool:
    """ZeRO-2 and 3; and tensor or context parallelism, which Accelerate has beside FSDP2 alone."""
    return bool(layout.zero >= 2 or layout.tp > 1 or layout.cp > 1)


def _fsdp(layout: Layout) -> Mapping[str, Any]:
    return {
        "fsdp_version": 2,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_reshard_after_forward": layout.zero == 3,
        "fsdp_activation_checkpointing": layout.recompute == Recompute.FULL,
        "fsdp_offload_params": False,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }


def _mesh(layout: Layout) -> Mapping[str, Any]:
    shard = int(layout.shard / layout.cp) if layout.shard else int(layout.dp)
    sharded = min(int(layout.dp), max(1, shard))
    return {
        "parallelism_config_dp_replicate_size": int(layout.dp) // sharded,
        SHARDS: sharded,
        "parallelism_config_tp_size": int(layout.tp),
        "parallelism_config_cp_size": int(layout.cp),
    }


def _deepspeed(layout: Layout, plan: TrainingPlan) -> Mapping[str, Any]:
    return {
        "zero_stage": int(layout.zero),
        "gradient_accumulation_steps": plan.best.micro_batches,
        "offload_optimizer_device": "cpu" if layout.offload else "none",
    }


def _gaps(plan: TrainingPlan) -> Iterator[str]:
    layout = plan.best.layout
    by_fsdp = _by_fsdp(layout)
    if by_fsdp and layout.zero < 2:
        yield f"ZeRO-{layout.zero:.0f} beside tensor or context parallelism: FSDP2 splits gradients as well"
    if layout.recompute == Recompute.SELECTIVE:
        yield "recomputation inside of attention alone"
    if layout.recompute == Recompute.FULL and not by_fsdp:
        yield "recomputation: model.gradient_checkpointing_enable() in train.py"
    if layout.offload and by_fsdp:
        yield "optimizer states in host memory: fsdp_offload_params moves weights and gradients too"
    if layout.offload and not by_fsdp and layout.offload < 1:
        yield "a share of the optimizer states in host memory: it is all or nothing"
    if layout.sequence_parallel and layout.tp > 1:
        yield "sequence parallelism: the model's own tensor-parallel plan decides"
    if plan.dtype not in MIXED:
        yield f"{plan.dtype}: the config has bf16"
