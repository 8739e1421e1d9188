"""The published peaks of memory as columns: what was measured, on which layout, and which layouts ran or failed."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bench.plan.rows import Mask, Rows, nanotron_failures, training_runs
from bench.plan.training import described
from redline.model.model import Column, Model
from redline.model.parameters import count_parameters
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.memory.footprint import Constants, footprint_of, memory_constants
from redline.plan.train.memory.use import first_stage_memory, memory_use
from redline.plan.train.step_cost import MemoryUse, rows_of

Texts = NDArray[np.str_]

GIB = 2.0**30
LEAST_STATE_BYTES = 8
# By framework: the stack, what was measured (torch's allocated or reserved, or the device as nvidia-smi sees it), and
# what the source calls GB.
SOURCES = {
    "nanotron": ("nanotron", "allocated", GIB),
    "Megatron-DeepSpeed": ("bigscience", "device", GIB),
    "torchtitan(FSDP2)": ("torchtitan", "reserved", GIB),
    "LitGPT": ("litgpt", "allocated", 1e9),
    "Megatron-Bridge": ("megatron-bridge", "allocated", GIB),
}
FORMATS = {"fp16": "bf16", "bf16": "bf16", "fp8": "bf16"}


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Columns, one row per run."""

    ids: Texts
    names: Texts
    """Of models, as sources write them."""
    stacks: Texts
    kinds: Texts
    formats: Texts
    model: Model
    batch: Batch
    layout: Layout
    device_bytes: Column
    measured_bytes: Column
    """NaN for runs that failed."""
    ran: Mask
    held_out: Mask

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, mask: Mask) -> "Peaks":
        plain = ("ids", "names", "stacks", "kinds", "formats", "device_bytes", "measured_bytes", "ran", "held_out")
        parts = {name: rows_of(getattr(self, name), mask) for name in ("model", "batch", "layout")}
        return Peaks(**{name: getattr(self, name)[mask] for name in plain}, **parts)


@cache
def measured_peaks() -> Peaks:
    """Runs with a peak of memory that can be expressed."""
    rows = training_runs()
    return _peaks(rows.where(_with_peak(rows) & (_reasons(rows) == "")))


def left_out() -> dict[str, int]:
    """Why the other rows with a peak cannot be predicted, and how many."""
    rows = training_runs()
    reasons = _reasons(rows)[_with_peak(rows)]
    return {str(reason): int((reasons == reason).sum()) for reason in np.unique(reasons) if reason}


@cache
def nanotron_outcomes() -> Peaks:
    """All layouts of one benchmark that were tried on devices of 80 GB: those that ran, and those that failed."""
    runs = training_runs()
    ran, failed = runs.where(runs.text("framework") == "nanotron"), nanotron_failures()
    both = Rows({name: (*ran.columns[name], *failed.columns[name]) for name in ran.columns})
    return _peaks(both)


def predicted_use(peaks: Peaks, constants: Constants | None = None, *, fitted: bool = True) -> MemoryUse:
    """On the device that was measured: nanotron logs rank 0, which is on the first stage.

    With constants that were fitted to other rows; or not fitted, by what the source code of each stack tells.
    """
    return _by_stack(peaks, constants or memory_constants(), first_stage_only=True, fitted=fitted)


def fullest_use(peaks: Peaks, constants: Constants | None = None, *, fitted: bool = True) -> MemoryUse:
    """On the fullest device."""
    return _by_stack(peaks, constants or memory_constants(), first_stage_only=False, fitted=fitted)


def as_measured(use: MemoryUse, kinds: Texts) -> Column:
    """The part of a predicted peak that a measurement of this kind sees."""
    asked = use.allocated_bytes
    return np.select([kinds == "reserved", kinds == "device"], [use.reserved_bytes, use.peak_bytes], asked)


def _by_stack(peaks: Peaks, constants: Constants, *, first_stage_only: bool, fitted: bool) -> MemoryUse:
    columns = {name: np.empty(len(peaks)) for name in MemoryUse.__dataclass_fields__}
    for stack, form in sorted({*zip(peaks.stacks.tolist(), peaks.formats.tolist(), strict=True)}):
        mask = (peaks.stacks == stack) & (peaks.formats == form)
        some, foot = peaks.where(mask), footprint_of(constants, stack, form, fitted=fitted)
        on_first = first_stage_only and stack == "nanotron"
        use = (first_stage_memory if on_first else memory_use)(some.model, some.batch, some.layout, foot)
        for name, column in columns.items():
            column[mask] = getattr(use, name)
    return MemoryUse(**columns)


def _peaks(rows: Rows) -> Peaks:
    model, batch, layout = described(rows)
    micro_batch = np.where(np.isnan(layout.micro_batch), rows.numbers("micro_batch"), layout.micro_batch)
    sequences = np.where(np.isnan(batch.sequences), layout.dp * micro_batch, batch.sequences)
    named = [SOURCES[framework] for framework in rows.columns["framework"]]
    return Peaks(
        ids=rows.text("id"),
        names=rows.text("model"),
        stacks=np.array([stack for stack, _, _ in named]),
        kinds=np.array([kind for _, kind, _ in named]),
        formats=np.array([FORMATS.get(precision, precision) for precision in rows.columns["precision"]]),
        model=replace(model, tied=_tied(model, rows)),
        batch=Batch(sequence=_longest(rows), sequences=sequences),
        layout=replace(layout, micro_batch=micro_batch),
        device_bytes=rows.numbers("gpu_mem_gb") * 1e9,
        measured_bytes=rows.numbers("peak_mem_gb") * np.array([unit for _, _, unit in named]),
        ran=rows.text("status") == "ok",
        held_out=rows.held_out,
    )


def _tied(model: Model, rows: Rows) -> Column:
    """Where a source is silent, the stated number of parameters settles whether the head is the embedding."""
    given, stated = rows.numbers("tied_emb"), rows.numbers("params_b") * 1e9
    shared, apart = (count_parameters(replace(model, tied=tied)).total for tied in (1.0, 0.0))
    closer = np.abs(np.asarray(shared) - stated) < np.abs(np.asarray(apart) - stated)
    return np.where(np.isnan(given), 1.0 * closer, given)


def _with_peak(rows: Rows) -> Mask:
    return ~np.isnan(rows.numbers("peak_mem_gb"))


def _below_its_states(rows: Rows) -> Mask:
    """Of one device: weights, gradients and two moments of Adam take 8 bytes per parameter at the least."""
    alone = rows.numbers("gpus") == 1
    trained = np.array(["lora" not in task for task in rows.columns["task"]])
    least = LEAST_STATE_BYTES * rows.numbers("params_b") * 1e9
    below: Mask = alone & trained & (rows.numbers("peak_mem_gb") * GIB < least)
    return below


def _longest(rows: Rows) -> Column:
    """Tokens of the longest sequence, which makes the peak: where sequences differ, the notes name it."""
    stated = np.array(["longest sample 1304 tokens" in note for note in rows.columns["notes"]])
    return np.where(stated, 1304.0, rows.numbers("seq"))


def _reasons(rows: Rows) -> Texts:
    """Why a peak cannot be predicted: the first that applies, "" where none does."""
    contradicts = np.array(["CHECK" in note for note in rows.columns["notes"]])
    computed = np.array(["computed" in kind for kind in rows.columns["mem_kind"]])
    known = np.array([framework in SOURCES for framework in rows.columns["framework"]])
    checks: tuple[tuple[Mask, str], ...] = (
        (computed, "computed, not measured"),
        (np.isnan(_longest(rows)), "the sequence length is not given"),
        (np.isnan(rows.numbers("micro_batch")), "the micro-batch is not given"),
        (contradicts, "the source contradicts itself"),
        (_below_its_states(rows), "less was measured than the stated optimizer holds"),
        (~known, "too few runs of its software to know it"),
    )
    return np.select([mask for mask, _ in checks], [reason for _, reason in checks], "")
