"""How well plans predict published measurements: what `accuracy.json` says of it, and `redline plan validate` shows."""

from collections.abc import Mapping
from dataclasses import dataclass

from redline.plan.serve.serving_plan import Repeats, ServingSituation
from redline.plan.train.search.plan_trust import Situation

EXPERTS = "experts"


@dataclass(frozen=True, kw_only=True)
class LeftOutAccuracy:
    """Runs that were predicted without their group. Errors are predicted over measured, less 1."""

    situation: Situation
    name: str
    """Of a stack, or what the runs are: "all" or "experts"."""
    runs: int
    groups: int
    bias: float
    """The median error."""
    median: float
    """Of errors without their sign."""
    ninetieth: float
    covered: float
    """Share of measured times inside the 80 % interval that is made without their group."""
    nearest_median: float
    """The same of the most similar of the other runs, scaled by FLOPs."""
    nearest_ninetieth: float


@dataclass(frozen=True, kw_only=True)
class PeerAccuracy:
    """Another planner and plans of usual software, whose stack was left out of the fit, on the same runs."""

    name: str
    runs: int
    median: float
    ninetieth: float
    own_median: float
    own_ninetieth: float


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Everything that is claimed of plans of what was not measured."""

    every: tuple[LeftOutAccuracy, ...]
    """One per situation, and those of mixtures of experts."""
    stacks: tuple[LeftOutAccuracy, ...]
    """Stack by stack."""
    peers: tuple[PeerAccuracy, ...]


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Errors are predicted over measured, less 1."""

    name: str
    runs: int
    bias: float
    """The median error."""
    median: float
    """Of errors without their sign."""
    ninetieth: float
    covered: float
    """Share of measured times inside the interval that is to hold 80 % of them."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The layout that is predicted to be the fastest, among those that were measured for a model and a size."""

    model: str
    devices: int
    layouts: int
    lost: float
    """Share of the throughput of the best of them."""


@dataclass(frozen=True, kw_only=True)
class ChoiceLoss:
    """The loss of choosing by prediction."""

    choices: tuple[Choice, ...]
    median: float
    ninetieth: float


@dataclass(frozen=True, kw_only=True)
class StepAccuracy:
    """Everything that is claimed about step times, from runs with odd ids."""

    dense: Accuracy
    """All stacks; 16 bits, shorter than 16k tokens, every weight trained."""
    megatron: Accuracy
    """The same of stacks built on Megatron."""
    stacks: tuple[Accuracy, ...]
    kinds: tuple[Accuracy, ...]
    """What is not dense: experts, fewer bits, long sequences. Adapters have no line, as they cannot be planned."""
    everything: Accuracy
    choice: ChoiceLoss
    """Of all measured layouts of the sweep, those of the fitting half included: a choice is among all."""
    expressible: float
    """Share of measured runs of language models."""
    siblings: float
    """Share of the scored runs whose model, machine, format and stack are among the fitted ones."""
    reasons: tuple[tuple[str, int], ...]
    """Why others cannot be expressed, and how many."""


@dataclass(frozen=True, kw_only=True)
class PeakAccuracy:
    """Peaks of one stack, or of all."""

    stack: str
    rows: int
    bias: float
    """Median of predicted over measured, less one."""
    median: float
    """Of absolute errors."""
    p90: float
    covered: float
    """Share of measured peaks inside the stated interval, which is meant to hold eight of ten."""


@dataclass(frozen=True, kw_only=True)
class FitVerdicts:
    """Layouts that were tried, by what was predicted of them and what happened."""

    accepted_chance: float
    ran: int
    failed: int
    refused: int
    """Of the failed: those that a rule refuses whatever the memory is."""
    false_fits: int
    """Failed, though predicted to fit."""
    contradicted: int
    """Of the false fits: those whose very layout is among those that ran. No rule on layouts can tell these."""
    false_refusals: int
    """Ran, though predicted not to."""

    @property
    def fits(self) -> int:
        """All verdicts "fits"."""
        return self.ran - self.false_refusals + self.false_fits


@dataclass(frozen=True, kw_only=True)
class MemoryAccuracy:
    peaks: tuple[PeakAccuracy, ...]
    """Per stack, then all together."""
    left_out: dict[str, int]
    """Rows with a peak that cannot be predicted, by reason."""
    verdicts: FitVerdicts


HELD_OUT = "held out"
SPECULATIVE = "held out, speculative"
LEFT_OUT: Mapping[ServingSituation, str] = {
    ServingSituation.MODEL: "model left out",
    ServingSituation.GPU: "gpu left out",
    ServingSituation.FAMILY: "family left out",
}


@dataclass(frozen=True, kw_only=True)
class ServingAccuracy:
    """Of one engine, metric and group of rows that nothing was fitted to. Errors are predicted / measured - 1."""

    engine: str
    metric: str
    group: str
    """"held out", "model left out" and so on; "held out, speculative", or a record of GPUs."""
    rows: int
    groups: int
    """That were left out of a fit one by one; 1 for the held-out half, of which all is left out at once."""
    median: float
    """Of absolute errors."""
    p90: float
    bias: float
    """The median of signed errors."""
    covered: float | None
    """Share of rows inside the stated 80 % interval; that of a group that is left out is made without it."""


@dataclass(frozen=True, kw_only=True)
class LeftOutGroup:
    """A model, GPU or family of GPUs that was left out of the fit of an engine."""

    engine: str
    situation: ServingSituation
    name: str
    rows: int
    bias: Mapping[str, float]
    """The median error, by figure."""


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """Measured and predicted figures of held-out runs that belong together, to six digits."""

    name: str
    measured: tuple[float, ...]
    predicted: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Validation:
    """All tables of `redline plan validate`."""

    left_out: LeftOut
    """Step time, by what was left out of the fit."""
    step: StepAccuracy
    """Of layouts between those that were fitted to."""
    memory: MemoryAccuracy
    serving: tuple[ServingAccuracy, ...]
    serving_groups: tuple[LeftOutGroup, ...]
    """Every model and GPU that was left out of the fit of an engine."""
    first_token_repeats: Repeats
    step_points: tuple[Scatter, ...]
    """Seconds, by software stack."""
    memory_points: tuple[Scatter, ...]
    """Bytes, by software stack."""
    serving_points: tuple[Scatter, ...]
    """Seconds per token, by engine; rows without speculative decoding."""
