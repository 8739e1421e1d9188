"""How a model is spread over devices to serve it, and what is asked of it. Numbers, or columns of numbers."""

from dataclasses import dataclass

from redline.model.model import Number


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
