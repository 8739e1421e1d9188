"""Which layouts a job could have: every way to spread a model over its devices that can run at all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from redline.model.model import Column, Model
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.stacks import StackAbilities
from redline.plan.train.training_choices import PipelineSchedule, Recompute

# Beyond these nobody has run, and the model has no evidence.
LARGEST_TENSOR, LARGEST_CONTEXT, LARGEST_CHUNKS, LARGEST_MICRO_BATCH = 64, 64, 16, 64
# Samples of a module in a micro-batch.
LARGEST_SAMPLES = 4096
# Ring attention cuts a sequence into pieces; shorter ones leave nothing to overlap with.
LEAST_CONTEXT_TOKENS = 1024
# How much longer than the average the fullest stage of a pipeline may be.
UNEVEN = 1.15


@dataclass(frozen=True, kw_only=True)
class Space:
    """How many devices there are, and what the user has decided already."""

    devices: int
    devices_per_node: int = 8
    fixed: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Of fields of Layout: the only values to consider."""
    abilities: StackAbilities = field(default_factory=StackAbilities)
    """Of the software stack."""


def layouts(model: Model, batch: Batch, space: Space) -> Layout:
    """All of them, as columns. Empty columns where there is none."""
    rows = [
        (*split, micro_batch, *order, *sharding)
        for split in _splits(model, batch, space)
        for micro_batch in _micro_batches(batch, split[0], space)
        for order in _orders(model, batch, split, micro_batch, space)
        for sharding in _shardings(split, space)
    ]
    return _as_columns(rows, tuple(Recompute), _with_whole_experts(space) if model.experts else space)


def _with_whole_experts(space: Space) -> Space:
    """Experts are spread over devices and not cut, unless the user says otherwise: the measured runs are so, and what
    it costs to gather their tokens over tensor-parallel devices is not modelled.
    """
    return replace(space, fixed={"expert_tp": (1.0,), **space.fixed})


def module_layouts(batch: Batch, space: Space) -> Layout:
    """The same for a module whose inside is not known: copies of it, and what ZeRO divides of them."""
    share, rest = divmod(int(batch.sequences), space.devices)
    alone = all(_allowed(name, [1], space) for name in ("tp", "pp", "cp", "ep", "chunks"))
    sizes = [divisor for divisor in divisors(share) if divisor <= LARGEST_SAMPLES] if alone and not rest else []
    rows = [
        (dp, 1, 1, 1, 1, micro_batch, 1, PipelineSchedule.ONE_F_ONE_B, *sharding)
        for dp in _allowed("dp", [space.devices], space)
        for micro_batch in _allowed("micro_batch", sizes, space)
        for sharding in _shardings((dp, 1, 1, 1, 1), space)
    ]
    return _as_columns(rows, (Recompute.NONE, Recompute.FULL), space)


def _as_columns(rows: Sequence[tuple[int, ...]], recomputes: Sequence[int], space: Space) -> Layout:
    names = ("dp", "tp", "pp", "cp", "ep", "micro_batch", "chunks", "schedule", "zero", "shard")
    table = np.array(rows, np.float64).reshape(-1, len(names))
    recompute = np.array(_allowed("recompute", recomputes, space), np.float64)
    repeated = np.repeat(table, len(recompute), axis=0)
    columns = {name: np.ascontiguousarray(repeated[:, at]) for at, name in enumerate(names)}
    columns["recompute"] = np.tile(recompute, len(table))
    columns["sequence_parallel"] = _sequence_parallel(columns["tp"], space)
    others = ("expert_tp", "offload", "flash", "execution", "imbalance", "lora")
    given = {name: space.fixed[name][0] for name in others if name in space.fixed}
    return Layout(**columns, **given)


def _sequence_parallel(tp: Column, space: Space) -> Column:
    """It costs nothing and saves memory, so it is used unless the user says otherwise."""
    wanted = space.fixed.get("sequence_parallel", (1.0,))[0]
    return np.where(tp > 1, wanted, 0.0)


def _splits(model: Model, batch: Batch, space: Space) -> Iterator[tuple[int, int, int, int, int]]:
    """dp, tp, pp, cp and ep whose product is the number of devices."""
    tensors = _allowed("tp", [tp for tp in divisors(space.devices) if _tensor_fits(model, tp)], space)
    contexts = _allowed("cp", [cp for cp in divisors(space.devices) if _context_fits(model, batch, cp)], space)
    pipelines = _allowed("pp", [pp for pp in divisors(space.devices) if _pipeline_fits(model, pp)], space)
    for tp, cp, pp in product(tensors, contexts, pipelines):
        dp, rest = divmod(space.devices, tp * cp * pp)
        if not _sequence_divides(batch, tp, cp, space):
            continue
        if rest or dp < 1 or dp not in _allowed("dp", [dp], space) or batch.sequences % dp:
            continue
        experts = [ep for ep in divisors(dp * cp) if model.experts and model.experts % ep == 0]
        for ep in _allowed("ep", experts or [1], space):
            yield dp, tp, pp, cp, ep


def _tensor_fits(model: Model, tp: int) -> bool:
    shared = model.kv_heads % tp == 0 or tp % model.kv_heads == 0
    return bool(tp <= LARGEST_TENSOR and model.heads % tp == 0 and shared)


def _context_fits(model: Model, batch: Batch, cp: int) -> bool:
    divides = batch.sequence % context_pieces(model, cp) == 0
    return cp == 1 or bool(divides and cp <= LARGEST_CONTEXT and batch.sequence / cp >= LEAST_CONTEXT_TOKENS)


def context_pieces(model: Model, cp: int) -> int:
    """Into how many equal pieces context parallelism cuts a sequence: with a causal mask each device has an early and
    a late one, so that all have as much to do.
    """
    return 2 * cp if model.causal and cp > 1 else cp


def _sequence_divides(batch: Batch, tp: int, cp: int, space: Space) -> bool:
    """Sequence parallelism cuts what context parallelism leaves once more."""
    splits = tp if space.fixed.get("sequence_parallel", (1.0,))[0] else 1
    return bool(batch.sequence % (cp * splits) == 0)


def _pipeline_fits(model: Model, pp: int) -> bool:
    return pp == 1 or bool(pp <= model.layers and _stage(model, pp) <= UNEVEN * model.layers / pp)


def _stage(model: Model, pp: int) -> int:
    """Layers of the fullest stage. The embedding and the head may count as a layer each."""
    return min(-(-int(model.layers) // pp), -(-(int(model.layers) + 2) // pp))


def _micro_batches(batch: Batch, dp: int, space: Space) -> list[int]:
    """Powers of two that divide what one copy works through in a step; or what the user wants, if it does."""
    share = int(batch.sequences) // dp
    powers = [2**power for power in range(LARGEST_MICRO_BATCH.bit_length())]
    wanted = space.fixed.get("micro_batch", powers)
    return [int(size) for size in wanted if share % int(size) == 0]


def _orders(
    model: Model, batch: Batch, split: tuple[int, ...], micro_batch: int, space: Space
) -> Iterator[tuple[int, int]]:
    """Chunks and schedule of the pipeline."""
    dp, pp = split[0], split[2]
    if pp == 1:
        yield 1, PipelineSchedule.ONE_F_ONE_B
        return
    micro_batches = int(batch.sequences) // (dp * micro_batch)
    # GPipe is never faster than 1F1B and needs more memory: only who asks for it gets it.
    usual = [PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.ZERO_BUBBLE]
    for schedule in _allowed("schedule", list(PipelineSchedule) if "schedule" in space.fixed else usual, space):
        interleaved = schedule == PipelineSchedule.ONE_F_ONE_B and micro_batches % pp == 0
        several = [chunks for chunks in range(2, LARGEST_CHUNKS + 1) if interleaved and _evenly(model, pp * chunks)]
        for chunks in _allowed("chunks", [1, *several], space):
            yield chunks, schedule


def _evenly(model: Model, pieces: int) -> bool:
    return int(model.layers) % pieces == 0 or (int(model.layers) + 2) % pieces == 0


def _shardings(split: tuple[int, ...], space: Space) -> Iterator[tuple[int, int]]:
    """ZeRO stages, and how many devices they split over."""
    dp, tp, pp, cp, _ = split
    copies = dp * cp
    stages = [0] if copies == 1 else [0, 1, 2, 3]
    if pp > 1 and space.abilities.zero_in_pipeline is not None:
        stages = [stage for stage in stages if stage in space.abilities.zero_in_pipeline]
    for zero in _allowed("zero", stages, space):
        for shard in _groups(zero, copies, tp, space):
            yield zero, shard


def _groups(zero: int, copies: int, tp: int, space: Space) -> list[int]:
    """All copies (0), or with ZeRO-3 those of a node (HSDP); or whatever the user wants that divides the copies."""
    if zero and "shard" in space.fixed:
        wanted = [int(size) for size in space.fixed["shard"]]
        return sorted({size % copies for size in wanted if size == 0 or copies % size == 0})
    within = space.devices_per_node // tp
    near = [within] if zero == 3 and 1 < within < copies and copies % within == 0 else []
    return _allowed("shard", [0, *near], space)


def _allowed(name: str, possible: Sequence[int], space: Space) -> list[int]:
    able = [value for value in possible if space.abilities.has(name, value)]
    wanted = space.fixed.get(name)
    return able if wanted is None else [int(size) for size in wanted if int(size) in able]


def divisors(number: int) -> list[int]:
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def listed_divisors(number: int) -> str:
    every = divisors(number)
    return ", ".join(map(str, every[:12])) + (", ..." if len(every) > 12 else "")
