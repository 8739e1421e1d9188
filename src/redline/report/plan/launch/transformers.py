"""What launch scripts of frameworks that build their own transformers need to know of a model."""

from __future__ import annotations

from collections.abc import Iterator

from redline.errors import ParameterError
from redline.model.model import Model
from redline.plan.train.layout import Layout
from redline.plan.train.search.plan import TrainingPlan
from redline.plan.train.workload import Transformer

DECODERS_ONLY = "builds decoders of its own; this plan is of a module of yours: emit accelerate or deepspeed"


def model_of(plan: TrainingPlan, framework: str) -> Model:
    if not isinstance(plan.workload, Transformer):
        raise ParameterError("emit", f" {framework}: it {DECODERS_ONLY}")
    return plan.workload.model


def plain_decoder_gaps(model: Model) -> Iterator[str]:
    """Parts that the framework's usual decoder does not have."""
    if not model.causal or model.patch_in or model.joint_layers or model.modulation:
        yield "the model: it is no decoder of tokens"
    if model.state_layers:
        yield "layers with a state-space mixer"
    if model.window_layers:
        yield "sliding windows of attention"


def is_latent(model: Model) -> bool:
    return bool(model.kv_rank > 0)


def has_layer_norm(model: Model) -> bool:
    """Told by counts: a norm with a bias has twice as many numbers as one without."""
    plain = (2 * model.layers + 1) * model.hidden
    return float(model.norm_weights) >= 2 * float(plain)


def layers_per_piece(model: Model, layout: Layout) -> list[int]:
    """Layers of each piece of a pipeline, in order; the first pieces have one more where they do not divide evenly."""
    pieces = int(layout.pp * max(1, layout.chunks))
    each, more = divmod(int(model.layers), pieces)
    return [each + (at < more) for at in range(pieces)]
