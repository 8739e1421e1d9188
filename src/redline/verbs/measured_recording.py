"""A measured step of training from a recording: what its ledger says of the time, and its calls of the layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import msgspec
import numpy as np

from redline.analysis.accounts import COMPUTE, IDLE, Account
from redline.analysis.job.combine import Diagnosis
from redline.analysis.rank.host_phases import Phase
from redline.analysis.rank.kernel_table import KernelRow
from redline.errors import InputError
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.measured import measured_step as accounts
from redline.planner.train.measured.measured_step import MeasuredTraining
from redline.planner.train.transformer import Transformer
from redline.planner.train.workload import Workload
from redline.trace import schema
from redline.verbs.diagnose import diagnose
from redline.verbs.measured_numbers import TIMES, checked, layout_of

_NS = 1e9
_STARVED = "RL-H20"


def from_recording(
    path: Path, workload: Workload, sequence: int, told: Mapping[str, float], machine: str | None
) -> MeasuredTraining:
    found = diagnose(path, machine=_of_recording(path, machine)).diagnosis
    if found.predicted:
        raise InputError(f"{path}: nothing of it ran, it is a predicted step; give a recording of the job")
    if found.altered:
        raise InputError(f"{path}: it is altered by {found.altered:.200}, not measured; give a recording of the job")
    if not found.rank_steps:
        raise InputError(f"{path}: no step was recognised in it; give the step as numbers: step=1.52s,batch=64")
    inferred = dict(_inferred(found, workload, sequence, told, path))
    layout, devices = layout_of({**inferred, **told}, _ranks(found))
    free = _free_share(found)
    parts = {name: free * time_s for name, time_s in _accounts(found, layout).items()}
    step_s = sum(parts[name] for name in accounts.ACCOUNTS)
    unseen = list(_unseen(found, parts, layout, free))
    if layout.pp == 1:  # stragglers, which are no part of a plan
        step_s -= parts.pop(accounts.WAITING)
    all_told = {**inferred, **told}
    return checked(
        MeasuredTraining(
            batch=Batch(sequence=int(told.get("sequence", sequence)), sequences=int(all_told["batch"])),
            layout=replace(layout, micro_batch=all_told["micro_batch"]),
            devices=devices,
            step_s=told.get("step", step_s),
            accounts={**parts, **{name: told[name] for name in TIMES[1:] if name in told}},
            memory_bytes=told.get("memory", 0.0),
            source=str(path),
            steps=found.rank_steps // max(len(found.ranks), 1),
            inferred=tuple(sorted(inferred)),
            unseen=tuple(unseen),
        )
    )


def _of_recording(path: Path, machine: str | None) -> str | None:
    """A digest has its machine in it already."""
    return None if path.name.endswith(".digest") else machine


def _inferred(
    found: Diagnosis, workload: Workload, sequence: int, told: Mapping[str, float], path: Path
) -> Iterator[tuple[str, float]]:
    """What is certain. InputError names what has to be given."""
    wide = [row for row in found.collectives if row.group_size > 1]
    split = any(name in told for name in ("tp", "pp", "cp", "ep"))
    if found.world_size > 1 and not split:
        if any(row.group_size != found.world_size for row in wide) or not wide:
            raise InputError(
                f"{path}: {found.world_size} ranks, and its collectives do not say how they divide the model; give the "
                "measured layout: tp=2,pp=1,zero=1"
            )
        yield "dp", found.world_size
    if found.world_size > 1 and "zero" not in told:
        kinds = {row.collective for row in wide}
        sharded = {"all_gather", "reduce_scatter"} <= kinds
        if not sharded and kinds - {"all_reduce", "broadcast"}:
            raise InputError(
                f"{path}: its collectives do not say what the copies divide; give the measured layout: zero=1"
            )
        yield "zero", 3.0 if sharded else 0.0
    if "micro_batch" in told and "batch" in told:
        return
    tokens, calls = _looked_up(found, workload)
    per_copy = tokens / told.get("sequence", sequence)
    if not calls or per_copy != int(per_copy) or per_copy < 1:
        raise InputError(
            f"{path}: its shapes do not tell the batch of this model with {sequence} tokens per sequence; give "
            "the measured layout: batch=64,micro_batch=1"
        )
    copies = told.get("dp", _ranks(found) / prod(told.get(name, 1) for name in ("tp", "pp", "cp")))
    yield "micro_batch", told.get("micro_batch", per_copy)
    yield "batch", told.get("batch", per_copy * calls * copies)


def _looked_up(found: Diagnosis, workload: Workload) -> tuple[float, float]:
    """Tokens of a call that looks up the model's embedding, and calls per step and rank; 0 where there is none."""
    if not isinstance(workload, Transformer):
        return 0.0, 0.0
    table = [int(workload.model.vocab), int(workload.model.hidden)]
    rows = [row for row in found.kernels if schema.is_table_lookup(row.operator)]
    tokens = {looked: row.calls for row in rows if (looked := _rows_of(row, table))}
    if len(tokens) != 1:
        return 0.0, 0.0
    ((count, calls),) = tokens.items()
    return float(count), calls / found.rank_steps


def _ranks(found: Diagnosis) -> int:
    """Of the job; a recording without a process group is of one."""
    return max(found.world_size, 1)


def _rows_of(row: KernelRow, table: Sequence[int]) -> int:
    shapes = msgspec.json.decode(row.shapes) if row.shapes else []
    if not shapes or shapes[0] != table:
        return 0
    indices = [shape for shape in shapes[1:] if isinstance(shape, list) and shape]
    return int(np.prod(indices[0])) if indices else 0


def _accounts(found: Diagnosis, layout: Layout) -> dict[str, float]:
    """Seconds of the average step of a rank."""
    ns = found.per_step
    update = next((phase for phase in found.phases if phase.phase is Phase.OPTIMIZER), None)
    device_ns, host_ns = (update.device_ns, update.host_ns) if update else (0.0, 0.0)
    compute_ns = sum(ns[account] for account in (*COMPUTE, Account.COPY))
    idle_ns = sum(ns[account] for account in IDLE)
    told = {
        accounts.COMPUTE: max(compute_ns - device_ns, 0.0),
        accounts.OPTIMIZER: min(device_ns, compute_ns) + min(host_ns, idle_ns),
        accounts.HOST: max(idle_ns - host_ns, 0.0),
        accounts.EXPOSED: ns[Account.TRANSFER],
        accounts.WAITING: ns[Account.PEER_WAIT],
    }
    return {name: time_ns / _NS for name, time_ns in {**told, **dict(_parts(found, layout))}.items()}


def _parts(found: Diagnosis, layout: Layout) -> Iterator[tuple[str, float]]:
    """What is seen inside of accounts, or beside them. Products inside of attention are told from others where that is
    fused, and compiled kernels hide both."""
    steps = found.rank_steps
    if found.world_size > 1 and found.collectives:
        yield accounts.TRAFFIC, sum(row.residence_ns - row.wait_ns for row in found.collectives) / steps
    attention_ns = sum(row.time_ns for row in found.kernels if schema.is_fused_attention(row.operator))
    matmul_ns = sum(row.time_ns for row in found.kernels if schema.is_matrix_product(row.operator))
    if attention_ns and matmul_ns and layout.flash:
        yield accounts.MATMULS, matmul_ns / steps
        yield accounts.ATTENTION, attention_ns / steps


def _free_share(found: Diagnosis) -> float:
    """Of the step, in which the job had a core; on a busy machine all its times include waiting for one.

    Of a job on CPUs that is no more than the CPU time of its process, where that is less than a core's: ranks that
    share cores with each other as well wait for longer than others keep them.
    """
    shares = [1.0] * len(found.ranks)
    for place, rank in enumerate(found.ranks):
        for starved in (match.figures for match in rank.matches if match.code == _STARVED):
            on_cpu = starved["used_cores"] if rank.facts.device == "cpu" else 1.0
            shares[place] = min(1.0 - starved["starved_share"], on_cpu)
    return sum(shares) / max(len(shares), 1)


def _unseen(found: Diagnosis, parts: Mapping[str, float], layout: Layout, free: float) -> Iterator[str]:
    """What the recording does not tell, in the words of the report."""
    if free < 1:
        yield f"the job waited for a core in {1 - free:.0%} of its step: times are without that, in proportion"
    if parts[accounts.WAITING] and layout.pp == 1:
        yield f"waiting for slower ranks, {parts[accounts.WAITING]:.3g} s per step, is left out: no plan predicts it"
    if not any(phase.phase is Phase.OPTIMIZER for phase in found.phases):
        yield "the optimizer's step is not marked in it: its time counts as compute"
    if accounts.MATMULS not in parts:
        yield "matmuls and attention cannot be told apart in it: one rate is fitted to both"
    if _ranks(found) == 1:
        yield "one rank: rates of links and overlap stay those of the software stack"
