"""What is served and on what: formats, deployments, machines with their engines' constants."""

import json
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from redline.errors import UsageError
from redline.hardware.machine import Machine, why_unusable
from redline.model.model import Column, Model, Number

# --- numbers or columns -----------------------------------------------------------------------------------------------


def column(value: Number) -> Column:
    return np.atleast_1d(np.asarray(value, dtype=np.float64))


def ratio(above: Number, below: Number) -> Column:
    """above / below, and 0 where there is nothing below."""
    above, below = column(above), column(below)
    out: Column = np.divide(above, below, out=np.zeros(np.broadcast(above, below).shape), where=below != 0)
    return out


# --- number formats ---------------------------------------------------------------------------------------------------


# Scales: fp8 has one of 4 bytes per tile of 128 x 128, nvfp4 one byte per 16 numbers, mxfp4 one per 32, int4 of groups
# of 32 two of 2 bytes each (scale and zero), or one where it is symmetric.
_FP8, _NVFP4, _MXFP4 = 1 + 4 / 128**2, 0.5 + 1 / 16, 0.5 + 1 / 32
_INT4, _INT4_SYMMETRIC = 0.5 + 4 / 32, 0.5 + 2 / 32


@dataclass(frozen=True, kw_only=True)
class Format:
    """Bytes per number. Numbers, or columns of numbers: one row per deployment."""

    name: str = field(default="", compare=False)
    expert_bytes: Number
    layer_bytes: Number
    """Of all other matrices in layers."""
    head_bytes: Number
    """Of the matrix that makes logits, and of embeddings."""
    cache_bytes: Number
    compute: Number
    """Which peak prompts are limited by: the bytes per number of its format (2: bf16, 1: fp8, 0.5: fp4)."""


FORMATS = {
    "bf16": Format(expert_bytes=2, layer_bytes=2, head_bytes=2, cache_bytes=2, compute=2),
    "fp8": Format(expert_bytes=_FP8, layer_bytes=_FP8, head_bytes=2, cache_bytes=2, compute=1),
    "nvfp4": Format(expert_bytes=_NVFP4, layer_bytes=_NVFP4, head_bytes=2, cache_bytes=2, compute=0.5),
    # Published checkpoints of mixtures of experts quantise the experts alone.
    "mxfp4": Format(expert_bytes=_MXFP4, layer_bytes=2, head_bytes=2, cache_bytes=2, compute=2),
    "int8": Format(expert_bytes=1, layer_bytes=1, head_bytes=1, cache_bytes=2, compute=2),
    "int4": Format(expert_bytes=_INT4, layer_bytes=_INT4, head_bytes=_INT4, cache_bytes=2, compute=2),
    "int4-experts": Format(expert_bytes=_INT4_SYMMETRIC, layer_bytes=2, head_bytes=2, cache_bytes=2, compute=2),
    "nvfp4-experts": Format(expert_bytes=_NVFP4, layer_bytes=2, head_bytes=2, cache_bytes=2, compute=0.5),
}
CACHE_BYTES = {"bf16": 2.0, "fp8": 1.0}


def format_named(name: str, cache: str = "bf16") -> Format:
    if name not in FORMATS:
        raise UsageError(f"there is no number format {name!r} to serve in; there are: {', '.join(FORMATS)}")
    if cache not in CACHE_BYTES:
        raise UsageError(f"there is no number format {cache!r} for the cache; there are: {', '.join(CACHE_BYTES)}")
    return replace(FORMATS[name], name=name, cache_bytes=CACHE_BYTES[cache])


def stacked(formats: list[Format]) -> Format:
    """Formats as one, in columns: row i is that of format i."""
    names = [f.name for f in fields(Format) if f.name != "name"]
    columns: dict[str, Any] = {name: np.concatenate([column(getattr(f, name)) for f in formats]) for name in names}
    return Format(**columns)


# --- deployment and traffic -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """tp * pp devices hold one copy of the model.

    With `attention_dp` above 1, attention is not split but copied: each of that many devices has its own sequences, and
    experts and dense parts are spread over all. (SGLang: --enable-dp-attention; TensorRT-LLM: DEP.)
    """

    tp: Number = 1
    pp: Number = 1
    ep: Number = 1
    """Over how many of the tp devices whole experts are spread; the rest splits each expert."""
    attention_dp: Number = 1
    head_tp: Number = 1
    """1: the matrix of the logits is split like all others; 0: every device has all of it."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Requests of one kind. A number of them is in flight: one that ends is replaced at once, while there are more."""

    concurrency: Number
    """Requests in flight on one copy of the model; infinite where all are there from the start."""
    prompt: Number
    """Tokens."""
    output: Number
    """Tokens, with the first."""
    requests: Number = 0
    """In all; 0: without end. The first wave queues and the last leaves places empty: they count for less the more
    there are."""


# --- rates of a machine and an engine ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AcceleratorPeaks:
    """What the accelerator can do at best."""

    peak_bf16: Number
    peak_fp8: Number
    """That of bf16 where there is none."""
    peak_fp4: Number
    """That of fp8 where there is none."""
    memory_bytes_per_s: Number
    memory_bytes: Number
    link_bytes_per_s: Number
    """To the other devices of its node, in one direction."""


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What an engine makes of a machine: fitted per engine and GPU. See serving_constants.json."""

    memory_share: Number = 0.75
    """Of the memory bandwidth, when weights are read."""
    compute_share: Number = 0.6
    """Of the peak, in matmuls of prompts and of large batches."""
    narrow_share: Number = 0.8
    """Of that, where activations are quantised for formats narrower than 16 bits."""
    attention_share: Number = 0.5
    """Of the peak, in attention over prompts."""
    expert_share: Number = 0.5
    """Of both, in matmuls of experts, against other matmuls."""
    unpack_bytes: Number = 0.2
    """Weights that are narrower than what is computed with are turned into it first. That takes as long as reading so
    many more bytes of each."""
    cache_share: Number = 0.7
    """Of the memory bandwidth, when caches are read."""
    layer_s: Number = 20e-6
    """Of a decode step, per layer: kernels that are too small to be limited by anything else."""
    expert_layer_s: Number = 20e-6
    """And more per layer with experts: routing, sorting."""
    quantised_layer_s: Number = 0.0
    """And more per layer with experts where activations are made as narrow as weights before each matmul."""
    step_s: Number = 1e-3
    """Of a decode step: what the host does between steps, and sampling."""
    sequence_s: Number = 10e-6
    """Of a decode step, per sequence in it."""
    reduce_s: Number = 15e-6
    """An all-reduce of hardly any data among 8 devices."""
    link_share: Number = 0.6
    prompt_layer_s: Number = 3e-4
    """Of a pass over prompts, per layer: launching its kernels, which no graph holds."""
    prompt_expert_layer_s: Number = 3e-4
    """And more per layer with experts."""
    prompt_s: Number = 5e-3
    """Of a pass over prompts: what the host does before it."""
    prompt_hidden: Number = 0.3
    """Share of these three that is hidden while the device still works on the step before: under load, not alone."""
    request_s: Number = 0.02
    """Of a request, before its prompt is passed: network, tokens, queue."""
    reserve: Number = 0.12
    """Share of memory that weights and caches do not get: activations, graphs, communicators."""
    chunk: Number = 8192
    """Most tokens in one pass over prompts."""
    most: Number = 2048
    """Most sequences in a decode step."""


# --- everything that is served, and on what ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One setup, or many: fields of its parts may be columns, which are broadcast against each other."""

    model: Model
    form: Format
    where: Deployment
    device: AcceleratorPeaks
    engine: Constants


# --- engines ----------------------------------------------------------------------------------------------------------


FILE = files("redline.plan.serve") / "serving_constants.json"
# GPUs that an engine treats alike, by the beginning of their records' names.
FAMILIES = {
    "Blackwell": ("B200", "B300", "GB200", "GB300"),
    "Hopper": ("H100", "H200", "H800", "H20", "GH200"),
    "Ampere": ("A100",),
    "CDNA3": ("MI300X", "MI325X", "MI355X"),
    "CDNA2": ("MI250X",),
}


def family_of(gpu: str) -> str:
    """The family of a record of the catalogue; "" where no engine was measured on it."""
    families = [name for name, starts in FAMILIES.items() if gpu.startswith(starts)]
    return families[0] if families else ""


def constants_of(engine: str, gpu: str) -> Constants:
    """Those of the GPU's family; where the engine was not measured on it, those of the engine over all families."""
    known = _engine(engine)
    return Constants(**known["families"].get(family_of(gpu), known["all"]))


def measured_on(engine: str, gpu: str) -> bool:
    return gpu in _engine(engine)["gpus"]


def is_family_measured(engine: str, gpu: str) -> bool:
    return family_of(gpu) in _engine(engine)["families"]


def _engine(name: str) -> Any:
    if name not in _loaded():
        raise UsageError(f"there are no constants for an engine {name!r}; there are: {', '.join(_loaded())}")
    return _loaded()[name]


@cache
def _loaded() -> dict[str, Any]:
    engines: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))["engines"]
    return engines


# --- devices ----------------------------------------------------------------------------------------------------------


_NEEDED = ("peak_flops_per_s.bf16", "peak_flops_per_s.fp16", "memory_bytes_per_s", "memory_bytes")


def device_of(machine: Machine) -> AcceleratorPeaks:
    """A format that the machine has no peak for is computed in the next wider one."""
    bf16 = machine.value("peak_flops_per_s.bf16") or machine.value("peak_flops_per_s.fp16")
    bandwidth, size = machine.value("memory_bytes_per_s"), machine.value("memory_bytes")
    if not bf16 or not bandwidth or not size:
        hint = f"choose a machine that has them: `redline hardware {machine.name}` shows what is known"
        raise UsageError(
            f"{machine.name} has no peak of 16 bits, memory bandwidth or memory size, so serving cannot be planned\n"
            f"{why_unusable(machine, _NEEDED) or hint}"
        )
    fp8 = machine.value("peak_flops_per_s.fp8") or bf16
    return AcceleratorPeaks(
        peak_bf16=bf16,
        peak_fp8=fp8,
        peak_fp4=machine.value("peak_flops_per_s.fp4") or fp8,
        memory_bytes_per_s=bandwidth,
        memory_bytes=size,
        link_bytes_per_s=machine.value("fabric_bytes_per_s") or machine.value("pcie_bytes_per_s") or 25e9,
    )
