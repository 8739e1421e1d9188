"""The published training runs as columns that the planner reads: model, batch, layout, machine and stack of each row.

What a source leaves out is filled in with what its software does by default, here and nowhere else. Rows that cannot be
expressed even so are listed with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bench.plan.rows import Mask, Numbers, Rows, training_runs, untouched_runs
from redline.hardware.catalogue import find
from redline.model.model import Model
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.stacks import DEFAULT_STACK, Rates, machine_rates
from redline.plan.train.step_cost import rows_of
from redline.plan.train.training_choices import PipelineSchedule, Recompute

Texts = NDArray[np.str_]

# Records of the catalogue, by how sources name their devices. An A800 is an A100 with slower links between devices.
MACHINES = {
    "A100-SXM-40GB": "A100-SXM4-40GB",
    "A100-SXM-80GB": "A100-SXM4-80GB",
    "A800-SXM-80GB": "A100-SXM4-80GB",
    "A10G": "A10G",
    "H100-SXM-80GB": "H100-SXM5-80GB",
    "H100-SXM-96GB-HBM2e(Grand Teton,500W)": "H100-SXM5-80GB",
    "H20": "H20",
    "H200-SXM": "H200-SXM",
    "H200-NVL": "H200-SXM",
    "H800-SXM": "H800-SXM",
    "L40S": "L40S",
    "B200-SXM": "B200-SXM",
    "B300-SXM": "B300-SXM",
    "GB200": "GB200",
    "GB300": "GB300",
    "MI300X": "MI300X",
    "MI325X": "MI325X",
    "MI355X": "MI355X",
    "TPU-v5p": "TPU-v5p",
    "MI250X-GCD": "MI250X-GCD",
    "RTX-3090": "RTX-3090",
    "RTX-4090": "RTX-4090",
    "RTX-5090": "RTX-5090",
    "V100-SXM3-32GB": "V100-SXM2-32GB",
}
FORMATS = {"fp16": "fp16", "fp8": "fp8", "fp8-rowwise": "fp8", "mxfp8": "fp8", "nvfp4": "fp4"}
# The stack of a row, by the first of these that its id or its framework begins with.
STACKS = (
    ("NT", "nanotron"),
    ("VT", "megatron-deepspeed"),
    ("BS", "bigscience"),
    ("LF", "composer"),
    ("IE", "internevo"),
    ("TT", "torchtitan"),
    ("MB", "megatron-bridge"),
    ("ML", "megatron-core"),
    ("MaxText", "jax"),
    ("PaxML", "jax"),
    ("NeMo", "megatron-core"),
    ("Megatron-Core", "megatron-core"),
    ("Megatron-LM", "megatron-lm"),
    ("Megatron-DeepSpeed", "megatron-lm"),
    ("DeepSpeed", "deepspeed"),
    ("PyTorch FSDP", "fsdp"),
)
# Shapes of latent attention that the table has no columns for: DeepSeek-V3 and Kimi K2 share them.
LATENT = {"head_dim": 192, "value_dim": 128, "q_rank": 1536, "kv_rank": 512, "rope_dim": 64}
WINDOW = 128  # of every second layer of GPT-OSS
USUAL_HEAD_DIM = 128
USUAL_RANK = 16  # that a source leaves out: what NeMo's and PEFT's recipes begin with
LONG_SEQUENCE = 16384
# NeMo runs 405B in chunks of two layers per stage; the logs of MLPerf do not repeat it.
MLPERF_405B_CHUNKS = 8


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Measured steps that can be expressed: columns, one row per run."""

    ids: Texts
    sources: Texts
    stacks: Texts
    machines: Texts
    formats: Texts
    names: Texts
    """Of models, as sources write them."""
    model: Model
    batch: Batch
    layout: Layout
    bare: Rates
    """Of the machines alone, before any stack."""
    measured_s: Numbers
    utilization: Numbers
    """MFU as stated, in percent; NaN where it is not."""
    held_out: Mask

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def devices(self) -> Numbers:
        return np.asarray(self.layout.dp * self.layout.tp * self.layout.pp * self.layout.cp, np.float64)

    @property
    def sparse(self) -> Mask:
        """Mixtures of experts."""
        return np.asarray(self.model.experts) > 0

    @property
    def narrow(self) -> Mask:
        """Formats below 16 bits."""
        return np.isin(self.formats, ("fp8", "fp4"))

    @property
    def long(self) -> Mask:
        return np.asarray((np.asarray(self.batch.sequence) >= LONG_SEQUENCE) | (np.asarray(self.layout.cp) > 1))

    @property
    def adapters(self) -> Mask:
        adapted: Mask = np.asarray(self.layout.lora) > 0
        return adapted

    def where(self, mask: Mask) -> "Runs":
        """The rows of a mask."""
        kept = {
            name: getattr(self, name)[mask]
            for name in (
                "ids",
                "sources",
                "stacks",
                "machines",
                "formats",
                "names",
                "measured_s",
                "utilization",
                "held_out",
            )
        }
        parts = {name: rows_of(getattr(self, name), mask) for name in ("model", "batch", "layout", "bare")}
        return Runs(**kept, **parts)


@dataclass(frozen=True, kw_only=True)
class Unexpressed:
    """Runs of language models that were measured, but cannot be predicted."""

    id: str
    reason: str


@cache
def expressed_runs() -> Runs:
    """All that can be expressed."""
    rows = training_runs()
    return _runs(rows.where(_measured(rows) & (_reasons(rows) == "")))


@cache
def expressed_untouched(which: int = 1) -> Runs:
    """Of a set of runs that is for scoring alone."""
    rows = untouched_runs(which)
    return _runs(rows.where(_measured(rows) & (_reasons(rows) == "")))


@cache
def unexpressed_runs() -> tuple[Unexpressed, ...]:
    rows = training_runs()
    reasons, measured = _reasons(rows), _measured(rows)
    wanted = np.flatnonzero(measured & (reasons != ""))
    return tuple(Unexpressed(id=rows.columns["id"][at], reason=str(reasons[at])) for at in wanted)


def described(rows: Rows) -> tuple[Model, Batch, Layout]:
    """Model, batch and layout of rows, whatever was measured of them."""
    return _model(rows), Batch(sequence=rows.numbers("seq"), sequences=_sequences(rows)), _layout(rows)


def _measured(rows: Rows) -> Mask:
    """Steps of language models, with a time or a rate of tokens. The source has to know of it itself: rates that follow
    from stated FLOP/s depend on what was counted.
    """
    arch = rows.text("arch")
    language = np.array([name.startswith(("dense", "moe", "hybrid", "encoder")) for name in arch])
    timed = ~np.isnan(rows.numbers("step_time_s")) | ~np.isnan(rows.numbers("tok_s_gpu"))
    measured: Mask = language & timed & (rows.text("status") == "ok")
    return measured


def _reasons(rows: Rows) -> Texts:
    """Why a row cannot be expressed: the first that applies, "" where none does."""
    shape = [~np.isnan(rows.numbers(name)) for name in ("layers", "hidden", "vocab")]
    spread = [~np.isnan(rows.numbers(name)) for name in ("dp", "tp", "pp", "cp", "ep", "gpus")]
    devices = np.prod([_or(rows, name, 1) for name in ("dp", "tp", "pp", "cp")], axis=0)
    known_stack = np.array([stack != "" for stack in _stacks(rows)])
    checks: tuple[tuple[Mask, str], ...] = (
        (_state_space(rows), "widths of its state-space layers are not given"),
        (~np.logical_and.reduce(shape), "the model's widths are not given"),
        (~np.logical_and.reduce(spread), "the layout is not given"),
        (np.isnan(_sequences(rows)) | np.isnan(rows.numbers("seq")), "sequence length or batch is not given"),
        (np.isnan(_micro_batch(rows)), "the micro-batch is not given"),
        (devices != rows.numbers("gpus"), "the layout has another number of devices than the run"),
        (_contains(rows, "notes", "CHECK"), "the source contradicts itself"),
        (~known_stack, "too few runs of its software to know it"),
    )
    return np.select([mask for mask, _ in checks], [reason for _, reason in checks], "")


def _runs(rows: Rows) -> Runs:
    machines = np.array([MACHINES[gpu] for gpu in rows.columns["gpu"]])
    formats = np.array([FORMATS.get(precision, "bf16") for precision in rows.columns["precision"]])
    batch = Batch(sequence=rows.numbers("seq"), sequences=_sequences(rows))
    return Runs(
        ids=rows.text("id"),
        sources=rows.text("source"),
        stacks=_stacks(rows),
        machines=machines,
        formats=formats,
        names=rows.text("model"),
        model=_model(rows),
        batch=batch,
        layout=_layout(rows),
        bare=_bare_rates(machines, formats, _or(rows, "gpus_per_node", 8), _or(rows, "nic_gbps_per_gpu", 0)),
        measured_s=_step_s(rows),
        utilization=rows.numbers("mfu_pct"),
        held_out=rows.held_out,
    )


def _model(rows: Rows) -> Model:
    layers, hidden = rows.numbers("layers"), rows.numbers("hidden")
    heads = _or(rows, "heads", np.maximum(np.round(hidden / USUAL_HEAD_DIM), 1))
    moe_layers = _or(rows, "moe_layers", 0)
    latent = _contains(rows, "arch", "mla")
    head_dim = np.where(latent, LATENT["head_dim"], _or(rows, "head_dim", hidden / heads))
    windowed = _contains(rows, "arch", "swa")
    expert_ffn = _or(rows, "moe_ffn", 0)
    return Model(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_or(rows, "kv_heads", heads),
        head_dim=head_dim,
        value_dim=np.where(latent, LATENT["value_dim"], head_dim),
        ffn=_or(rows, "ffn", 0),
        gated=_or(rows, "gated_ffn", 0),
        vocab=rows.numbers("vocab"),
        tied=_or(rows, "tied_emb", 0),
        causal=np.where(_contains(rows, "arch", "encoder"), 0.0, 1.0),
        attention_layers=layers,
        dense_layers=layers - moe_layers,
        moe_layers=moe_layers,
        window=np.where(windowed, WINDOW, 0.0),
        window_layers=np.where(windowed, layers / 2, 0.0),
        q_rank=np.where(latent, LATENT["q_rank"], 0.0),
        kv_rank=np.where(latent, LATENT["kv_rank"], 0.0),
        rope_dim=np.where(latent, LATENT["rope_dim"], 0.0),
        experts=_or(rows, "experts", 0),
        experts_per_token=_or(rows, "topk", 0),
        expert_ffn=expert_ffn,
        shared_ffn=_or(rows, "shared_experts", 0) * expert_ffn,
    )


def _layout(rows: Rows) -> Layout:
    """Sequence parallel goes with tensor parallel where a source is silent; sharding groups of 0 mean all copies."""
    tp = rows.numbers("tp")
    return Layout(
        dp=rows.numbers("dp"),
        tp=tp,
        pp=rows.numbers("pp"),
        cp=rows.numbers("cp"),
        ep=rows.numbers("ep"),
        expert_tp=_or(rows, "etp", np.where(_or(rows, "experts", 0) > 0, 1.0, 0.0)),
        sequence_parallel=np.where(tp > 1, _or(rows, "sp", 1.0), 0.0),
        zero=_or(rows, "zero_stage", 0),
        shard=_or(rows, "fsdp_shard", 0),
        chunks=np.maximum(_chunks(rows), 1.0),
        schedule=_schedule(rows),
        micro_batch=_micro_batch(rows),
        recompute=_recompute(rows),
        flash=_or(rows, "flash_attn", 1.0),
        lora=np.where(_contains(rows, "task", "lora"), USUAL_RANK, 0.0),
    )


def _recompute(rows: Rows) -> Numbers:
    """None where a source is silent: NVIDIA's recipes that do so keep all activations."""
    words = rows.text("recompute")
    full, some = words == "full", _contains(rows, "recompute", "selective")
    return np.where(full, float(Recompute.FULL), np.where(some, float(Recompute.SELECTIVE), float(Recompute.NONE)))


def _schedule(rows: Rows) -> Numbers:
    written = rows.text("pp_schedule")
    zero_bubble, dual = np.isin(written, ("zero-bubble", "zbv", "v-half", "v-min")), written == "DualPipe"
    usual = np.where(zero_bubble, float(PipelineSchedule.ZERO_BUBBLE), float(PipelineSchedule.ONE_F_ONE_B))
    return np.where(dual, float(PipelineSchedule.DUALPIPE), usual)


def _chunks(rows: Rows) -> Numbers:
    mlperf = _begins(rows, "id", "ML") & _contains(rows, "model", "405b")
    interleaved = rows.text("pp_schedule") == "Interleaved1F1B"
    usual = np.where(mlperf, MLPERF_405B_CHUNKS, np.where(interleaved, 2.0, 1.0))
    return np.where(rows.numbers("pp") > 1, _or(rows, "vpp", usual), 1.0)


def _micro_batch(rows: Rows) -> Numbers:
    """Where it is missing: one sequence, as recipes for models of that size and context have it."""
    return np.minimum(_or(rows, "micro_batch", 1.0), _sequences(rows) / _or(rows, "dp", 1))


def _sequences(rows: Rows) -> Numbers:
    """Of the whole step."""
    accumulated = _or(rows, "grad_accum", np.nan) * _or(rows, "micro_batch", 1) * _or(rows, "dp", 1)
    return _or(rows, "global_batch", accumulated)


def _step_s(rows: Rows) -> Numbers:
    tokens = _sequences(rows) * rows.numbers("seq")
    return _or(rows, "step_time_s", tokens / (rows.numbers("tok_s_gpu") * rows.numbers("gpus")))


def _stacks(rows: Rows) -> Texts:
    """Stacks of rows, "" where none is known. Of untouched runs they are given; blank is usual software."""
    if "stack" in rows.columns:
        return np.array([name or DEFAULT_STACK for name in rows.columns["stack"]])
    stacks = []
    for row_id, framework in zip(rows.columns["id"], rows.columns["framework"], strict=True):
        named = (stack for start, stack in STACKS if row_id.startswith(start) or framework.startswith(start))
        stacks.append(next(named, ""))
    return np.array(stacks)


def _bare_rates(machines: Texts, formats: Texts, per_node: Numbers, nic_gbit_per_s: Numbers) -> Rates:
    """One look-up per kind of machine and network, spread over the rows."""
    keys = list(zip(machines.tolist(), formats.tolist(), per_node.tolist(), nic_gbit_per_s.tolist(), strict=True))
    kinds = sorted(set(keys))
    rates = [
        machine_rates(find(name), dtype, devices_per_node=int(nodes), nic_bytes_per_s=gbit * 1e9 / 8)
        for name, dtype, nodes, gbit in kinds
    ]
    at = np.array([kinds.index(key) for key in keys])
    return _spread(rates, at)


def _spread(of_kinds: list[Rates], at: NDArray[np.intp]) -> Rates:
    names = Rates.__dataclass_fields__
    return Rates(**{name: np.array([getattr(of_kind, name) for of_kind in of_kinds], np.float64)[at] for name in names})


def _state_space(rows: Rows) -> Mask:
    return _contains(rows, "arch", "mamba")


def _or(rows: Rows, name: str, otherwise: float | Numbers) -> Numbers:
    numbers = rows.numbers(name)
    return np.where(np.isnan(numbers), otherwise, numbers)


def _contains(rows: Rows, name: str, word: str) -> Mask:
    return _told(rows, name, lambda text: word in text)


def _begins(rows: Rows, name: str, word: str) -> Mask:
    return _told(rows, name, lambda text: text.startswith(word))


def _told(rows: Rows, name: str, says: Callable[[str], bool]) -> Mask:
    return np.array([says(text) for text in rows.columns[name]], np.bool_)
