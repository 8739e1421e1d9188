"""A measured step to start a plan from: of a watched engine, a recording of a training job, or numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import msgspec
import numpy as np

from redline.errors import InputError, UsageError
from redline.ledger.accounts import COMPUTE, IDLE, Account
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.kernel_table import KernelRow
from redline.model.huggingface import read_config
from redline.model.model import Model
from redline.plan.serve.forward_passes import MeasuredPrompts, MeasuredStep
from redline.plan.train import measured as accounts
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.measured import ACCOUNTS, PARTS, MeasuredTraining
from redline.plan.train.training_choices import NAMED
from redline.plan.train.workload import Transformer, Workload
from redline.serving.read_logs import read_serving
from redline.serving.recording import ServingRecording
from redline.serving.request_ledger import request_ledger
from redline.serving.step_ledger import StepAccount, StepLedger
from redline.storage import path_of
from redline.timeline.table import I64
from redline.trace import schema
from redline.units import parse_bytes, parse_count
from redline.verbs.diagnose import diagnose

_MODEL = [StepAccount.DECODE, StepAccount.SAMPLE]
_AROUND = [
    StepAccount.BETWEEN,
    StepAccount.SCHEDULE,
    StepAccount.PREPARE,
    StepAccount.HANDOVER,
    StepAccount.WORKER,
    StepAccount.OUTPUTS,
]
_NS_PER_S = 1e9


def measured_step(folder: Path, machine: str) -> MeasuredStep:
    """Of the most usual number of requests among steps that only generate; InputError where there is none."""
    recording = read_serving(folder)
    if max(_setting(recording, "tensor_parallel_size"), _setting(recording, "pipeline_parallel_size")) > 1:
        raise InputError(f"{folder}: its engine is spread over several devices; give a run on one")
    steps = request_ledger(recording).steps
    chosen = _alike(recording, steps)
    if not len(chosen):
        raise InputError(f"{folder}: no step of its engine only generates; give a run under load")
    amounts = steps.amounts_ns[chosen] / _NS_PER_S
    rows = np.isin(recording.batch.step, chosen)
    return MeasuredStep(
        engine=str(recording.settings.get("engine", "")),
        model=_model(recording, folder),
        steps=len(chosen),
        batch=float(steps.tokens[chosen[0]]),
        context=float(recording.batch.computed[rows].mean()),
        model_s=float(amounts[:, _MODEL].sum(axis=1).mean()),
        around_s=float(amounts[:, _AROUND].sum(axis=1).mean()),
        peak_share=_peak_share(folder, machine),
        prompts=_prompts(recording, steps),
        most_tokens=_setting(recording, "max_num_batched_tokens") or np.inf,
        most_sequences=_setting(recording, "max_num_seqs") or np.inf,
    )


def _peak_share(folder: Path, machine: str) -> float:
    """Of a window of the run: what its matrix products need at the machine's peaks, over what they take."""
    try:
        rows = diagnose(folder, machine=machine).diagnosis.kernels
    except InputError:  # steps were counted, and none was captured
        return 1.0
    rated = [row for row in rows if row.flops > 0 and row.roof_ns > 0]
    took_ns = sum(row.time_ns for row in rated)
    return min(sum(row.roof_ns for row in rated) / took_ns, 1.0) if took_ns else 1.0


def _prompts(recording: ServingRecording, steps: StepLedger) -> MeasuredPrompts | None:
    """Without the first, in which an engine does what it does once."""
    rows = np.flatnonzero(steps.prefill_tokens > 0)[1:]
    if not len(rows):
        return None
    return MeasuredPrompts(
        tokens=float(steps.prefill_tokens[rows].mean()),
        length=float(recording.requests.prompt_tokens.mean()),
        model_s=float(steps.amounts_ns[rows, StepAccount.PREFILL].mean()) / _NS_PER_S,
    )


def _alike(recording: ServingRecording, steps: StepLedger) -> I64:
    generating: I64 = np.flatnonzero((steps.prefill_tokens == 0) & (steps.tokens > 0) & (recording.steps.drafted == 0))
    if not len(generating):
        return generating
    sizes, counts = np.unique(steps.tokens[generating], return_counts=True)
    alike: I64 = generating[steps.tokens[generating] == sizes[counts.argmax()]]
    return alike


def _setting(recording: ServingRecording, name: str) -> float:
    value = recording.settings.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _model(recording: ServingRecording, folder: Path) -> Model:
    told = recording.settings.get("model_config")
    if not isinstance(told, Mapping):
        raise InputError(f"{folder}: its log does not say which model was served; record it again")
    return read_config(dict(told))


def measured_training(
    given: str | Path, workload: Workload, sequence: int, *, layout: str | None, machine: str
) -> MeasuredTraining:
    """`given` is a recording, or numbers such as step=1.52s,dp=8,batch=64; `layout` the like beside a recording."""
    more: Mapping[str, float] = {} if layout is None else parse_measured(layout)
    if isinstance(given, str) and is_numbers(given):
        return from_numbers({**parse_measured(given), **more}, sequence)
    return from_recording(path_of(given), workload, sequence, more, machine)


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


SIZES = ("dp", "tp", "pp", "cp", "ep", "shard", "chunks", "micro_batch", "zero", "sequence_parallel", "flash", "lora")
BATCH = ("batch", "sequence", "gpus")
AMOUNTS = ("memory", "offload")
TIMES = ("step", *ACCOUNTS, *PARTS)
NAMES = {name: NAMED[name] for name in ("recompute", "schedule")}
KNOWN = (*TIMES, *BATCH, *SIZES, *NAMES, *AMOUNTS)


def parse_measured(text: str) -> dict[str, float]:
    """step=1.52s,tp=8,batch=512,recompute=full: times in seconds, choices as numbers. UsageError where it is none."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        name = name.replace("-", "_")
        if not equals or name not in KNOWN:
            raise UsageError(
                f"measured: {part.strip()!r} is not NAME=VALUE of a measured step\nthere are: {', '.join(KNOWN)}"
            )
        try:
            found[name] = _number(name, value)
        except (ValueError, KeyError) as error:
            raise UsageError(f"measured: {name}={value} makes no sense; {_example(name)}") from error
    return found


def is_numbers(text: str) -> bool:
    return text.partition("=")[0].strip().replace("-", "_") in KNOWN


def _number(name: str, value: str) -> float:
    if name in TIMES:
        number = _seconds(value)
    elif name in NAMES:
        return float(NAMES[name][value])
    elif name == "memory":
        number = float(parse_bytes(value))
    else:
        number = float(value) if name == "offload" else float(parse_count(value))
    if not (np.isfinite(number) and number >= 0) or (number == 0 and name in ("step", "memory", *BATCH)):
        raise ValueError(value)
    return number


def _seconds(text: str) -> float:
    for suffix, factor in (("ms", 1e-3), ("us", 1e-6), ("s", 1.0)):
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * factor
    return float(text)


def _example(name: str) -> str:
    if name in NAMES:
        return f"there are: {', '.join(NAMES[name])}"
    return "give a time such as 1.52s or 890ms" if name in TIMES else "give a number"


def from_numbers(told: Mapping[str, float], sequence: int) -> MeasuredTraining:
    missing = [name for name in ("step", "batch") if name not in told]
    layout, devices = layout_of(told)
    if "micro_batch" not in told and told.get("batch") != layout.dp:
        missing.append("micro_batch")
    if missing:
        raise UsageError(
            f"measured: {', '.join(missing)} missing; give such as step=1.52s,gpus=64,batch=512,micro_batch=1,tp=8"
        )
    return checked(
        MeasuredTraining(
            batch=Batch(sequence=int(told.get("sequence", sequence)), sequences=int(told["batch"])),
            layout=layout,
            devices=devices,
            step_s=told["step"],
            accounts={name: told[name] for name in TIMES[1:] if name in told},
            memory_bytes=told.get("memory", 0.0),
        )
    )


def layout_of(told: Mapping[str, float], devices: int = 0) -> tuple[Layout, int]:
    """What is not told is as frameworks have it; copies are what is left of the devices."""
    parts = int(np.prod([told.get(name, 1.0) for name in ("tp", "pp", "cp")]))
    devices = devices or int(told.get("gpus", told.get("dp", 1) * parts))
    copies = int(told.get("dp", max(devices // parts, 1)))
    if copies * parts != devices:
        raise UsageError(
            f"measured: dp {copies} x {parts} (tp x pp x cp) are not {devices} GPUs; give the layout that ran"
        )
    chosen = {name: told[name] for name in (*SIZES, *NAMES, "offload") if name in told}
    usual = {"sequence_parallel": 1.0 if told.get("tp", 1) > 1 else 0.0}
    return Layout(**{**usual, **chosen, "dp": copies}), devices


def checked(measured: MeasuredTraining) -> MeasuredTraining:
    rounds = measured.batch.sequences / (measured.layout.dp * measured.layout.micro_batch)
    if rounds != int(rounds) or rounds < 1:
        raise UsageError(
            f"measured: a batch of {measured.batch.sequences:g} is no multiple of dp {measured.layout.dp:g} x "
            f"micro_batch {measured.layout.micro_batch:g}; give the batch of the whole job, the micro-batch of a GPU"
        )
    return measured
