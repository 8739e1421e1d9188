"""An engine's constants from one measured step, where nothing was fitted: the machine's peaks, and what is left.

Reading is taken at the share of the machine's peak that the step's operators reach, arithmetic at the share at which
prompts took as long as they took. What the model takes beyond that counts as a cost of each layer, what the engine
takes around it as a cost of each step.
"""

from dataclasses import dataclass, replace

from redline.model.model import Model
from redline.plan.serve.forward_passes import decode_pass, mixing_layers, prompt_pass
from redline.plan.serve.setup import AcceleratorPeaks, Constants, Deployment, Format, Setup

_LEAST_SHARE, _HALVINGS = 1e-4, 40
_AT_THE_PEAKS = Constants(
    memory_share=1.0,
    compute_share=1.0,
    attention_share=1.0,
    cache_share=1.0,
    layer_s=0.0,
    expert_layer_s=0.0,
    step_s=0.0,
    sequence_s=0.0,
    prompt_layer_s=0.0,
    prompt_expert_layer_s=0.0,
    prompt_s=0.0,
    prompt_hidden=0.0,
    request_s=0.0,
)


@dataclass(frozen=True, kw_only=True)
class MeasuredPrompts:
    """The mean of steps that computed tokens of prompts."""

    tokens: float  # in a step
    length: float  # of a prompt
    model_s: float  # of those tokens


@dataclass(frozen=True, kw_only=True)
class MeasuredStep:
    """Steps that generate one token for each of `batch` requests, with `context` tokens before it, on one device."""

    engine: str
    model: Model
    steps: int  # that were measured; times are their means
    batch: float
    context: float
    model_s: float  # with logits and the choice of tokens
    around_s: float  # the engine's own time
    peak_share: float  # of the machine's peaks, that its matrix products reach; 1 where no window was recorded
    prompts: MeasuredPrompts | None  # None where none was computed
    most_tokens: float  # in a pass over prompts
    most_sequences: float


@dataclass(frozen=True, kw_only=True)
class MeasuredEngine:
    """A measured step, the least that the machine needs for it at its peaks, and the constants that follow."""

    step: MeasuredStep
    roof_s: float
    constants: Constants


def engine_of(step: MeasuredStep, form: Format, device: AcceleratorPeaks) -> MeasuredEngine:
    setup = Setup(model=step.model, form=form, where=Deployment(), device=device, engine=_AT_THE_PEAKS)
    roof_s = float(decode_pass(setup, step.batch, step.context).total_s[0])
    share = max(roof_s / step.model_s, step.peak_share)  # it takes no longer than it took
    known = replace(_AT_THE_PEAKS, memory_share=share, compute_share=share, cache_share=share)
    if step.prompts is not None:
        compute_share = max(_compute_share(replace(setup, engine=known), step.prompts), share)
        known = replace(known, compute_share=compute_share, attention_share=compute_share)
    least_s = float(decode_pass(replace(setup, engine=known), step.batch, step.context).total_s[0])
    layer_s = max(step.model_s - least_s, 0.0) / float(mixing_layers(step.model)[0])
    constants = replace(
        known,
        layer_s=layer_s,
        step_s=step.around_s,
        prompt_layer_s=layer_s,
        prompt_s=step.around_s,
        chunk=step.most_tokens,
        most=step.most_sequences,
    )
    return MeasuredEngine(step=step, roof_s=roof_s, constants=constants)


def _compute_share(setup: Setup, prompts: MeasuredPrompts) -> float:
    """Of the peak, with which a pass over prompts takes as long as it took; found by halving."""
    low, high = _LEAST_SHARE, 1.0
    for _ in range(_HALVINGS):
        share = (low * high) ** 0.5
        engine = replace(setup.engine, compute_share=share, attention_share=share)
        taken_s = float(prompt_pass(replace(setup, engine=engine), prompts.tokens, prompts.length).total_s[0])
        low, high = (share, high) if taken_s > prompts.model_s else (low, share)
    return high
