"""Everything about a machine and an engine that the cost of serving depends on. Numbers, or columns of numbers."""

from dataclasses import dataclass

from redline.model.model import Number


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
