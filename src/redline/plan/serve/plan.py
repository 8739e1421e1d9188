"""From a request to a plan of serving: every size, format and load at once, what meets the limits, and the frontier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redline.errors import ParameterError, UsageError
from redline.hardware.machine import Machine
from redline.model.model import Column, Model
from redline.model.parameters import active_parameters, count_parameters
from redline.plan.serve.forward_passes import (
    MeasuredEngine,
    MeasuredStep,
    PassTime,
    ServeOutcome,
    cache_bytes,
    decode_pass,
    engine_of,
    most_sequences,
    prompt_pass,
    weights_bytes,
)
from redline.plan.serve.serving_defaults import ACCEPTED_CHANCE, LOADS, SIZES
from redline.plan.serve.serving_plan import (
    FigureTrust,
    Ranged,
    ServingEvidence,
    ServingPlan,
    ServingPoint,
    ServingSituation,
    first_token_repeats,
    situation_of,
    trust_of,
)
from redline.plan.serve.setup import (
    AcceleratorPeaks,
    Constants,
    Deployment,
    Format,
    Setup,
    Traffic,
    column,
    constants_of,
    device_of,
    format_named,
    measured_on,
    ratio,
    stacked,
)

# --- continuous batching ----------------------------------------------------------------------------------------------
# Continuous batching: what traffic sees when decode steps of all requests take turns with passes over new prompts.
#
# A request that ends makes room for the next, whose prompt is passed while the others wait. So in the time of its own O
# tokens each request sits through B - 1 prompts of others:
#
#     time per token = step(B) + (B - 1) / O * prompt
#
# and B requests deliver B * O tokens in the time that one of them is there: O * step(B) + B * prompt.
#
# Stages of a pipeline work at once, each for its share of the requests: a step is of B / pp sequences, and a prompt
# holds up the others for one stage's part of it only.


@dataclass(frozen=True, kw_only=True)
class _Turns:
    """How steps and prompts take turns."""

    batch: Column
    step: PassTime
    turn: PassTime
    """The pass over the prompts that come in between two steps."""
    together: Column
    """How many prompts that is; on average below 1 they still come one at a time."""
    between_s: Column
    """What one of them costs the others."""


def serve(setup: Setup, traffic: Traffic) -> ServeOutcome:
    """What one copy of the model does with this traffic."""
    prompt, output = column(traffic.prompt), column(traffic.output)
    halfway = prompt + output / 2
    most = np.floor(most_sequences(setup, prompt + output))
    turns = _turns(setup, traffic, _batch(most, setup, traffic), halfway)
    batch, step = turns.batch, turns.step
    # Of the first wave, half of the prompts came before: that is waiting for the first token, not for further ones.
    after = 1 - _first_wave(batch, traffic) / 2
    tpot = step.total_s + (batch - 1) / output * turns.between_s * after
    stay = output * step.total_s + batch * turns.between_s
    ttft = _first_token(setup, traffic, turns, stay)
    tokens_per_s = batch * output / stay * _filled(setup, traffic, turns, halfway)
    return ServeOutcome(
        batch=batch,
        most=most,
        fits=(most >= 1).astype(np.float64),
        ttft_s=ttft,
        tpot_s=tpot,
        step=step,
        prompt=_prompts(setup, prompt, column(1.0)),
        tokens_per_s=tokens_per_s,
        tokens_per_s_device=tokens_per_s / (column(setup.where.tp) * setup.where.pp),
        tokens_per_s_user=1 / tpot,
        latency_s=ttft + (output - 1) * tpot,
        weights_bytes=weights_bytes(setup),
        cache_bytes=cache_bytes(setup, halfway) / setup.where.pp * batch / setup.where.attention_dp,
    )


def _batch(most: Column, setup: Setup, traffic: Traffic) -> Column:
    """Sequences in flight: as many as are asked for, have room, may be, and are there at all."""
    requests = column(traffic.requests)
    there = np.where(requests > 0, requests, np.inf)
    allowed = np.minimum(column(setup.engine.most), there)
    return np.maximum(np.minimum(np.minimum(column(traffic.concurrency), most), allowed), 1.0)


def _turns(setup: Setup, traffic: Traffic, batch: Column, context: Column) -> _Turns:
    prompt, pp = column(traffic.prompt), column(setup.where.pp)
    together = np.maximum(1.0, np.minimum(batch / traffic.output, setup.engine.chunk / prompt))
    turn = _prompts(setup, prompt, together)
    return _Turns(
        batch=batch,
        step=decode_pass(setup, np.maximum(batch / pp, 1.0), context),
        turn=turn,
        together=together,
        between_s=(turn.total_s - turn.overhead_s * setup.engine.prompt_hidden) / together / pp,
    )


def _prompts(setup: Setup, prompt: Column, count: Column) -> PassTime:
    """All of `count` prompts: in one pass, or in as many as chunks of the engine's size need."""
    tokens = count * prompt
    passes = np.maximum(np.ceil(tokens / setup.engine.chunk), 1.0)
    return prompt_pass(setup, tokens / passes, prompt).times(passes)


def _first_wave(batch: Column, traffic: Traffic) -> Column:
    """Which share of all requests is in the first wave."""
    return np.minimum(ratio(batch, traffic.requests), 1.0)


def _filled(setup: Setup, traffic: Traffic, turns: _Turns, context: Column) -> Column:
    """Which share of the full rate is reached over all requests, as the last wave takes steps as well.

    All of one length end in waves of the batch: w whole ones, and one of what is left over, whose steps are hardly
    shorter. So N requests take w + last/step waves' time where N/B would do.
    """
    requests, batch = column(traffic.requests), turns.batch
    left = requests % batch
    last = decode_pass(setup, np.maximum(left / setup.where.pp, 1.0), context).total_s
    waves = np.floor(requests / batch) + np.where(left > 0, last / turns.step.total_s, 0.0)
    return np.where(requests > 0, np.minimum(ratio(requests / batch, waves), 1.0), 1.0)


def _first_token(setup: Setup, traffic: Traffic, turns: _Turns, stay: Column) -> Column:
    """Mean time to the first token.

    A request that replaces another waits for the step that is running, half of it on average, and for its own prompt.
    The first wave arrives at once: its prompts are passed in full chunks, and on average a request waits for half of
    them. Where more are in flight than have room, each also waits for those before it: (C - B) / B stays.
    """
    concurrency, prompt, batch = column(traffic.concurrency), column(traffic.prompt), turns.batch
    steady = np.where(batch > 1, turns.step.total_s / 2, 0.0) + turns.turn.total_s
    full = np.maximum(1.0, np.minimum(batch, np.floor(setup.engine.chunk / prompt)))
    waiting = _prompts(setup, prompt, full).total_s * (batch / full + 1) / 2
    first = np.where(batch > 1, waiting, turns.turn.total_s)
    share = _first_wave(batch, traffic)
    queue = np.where(np.isfinite(concurrency), np.maximum(concurrency - batch, 0.0), 0.0) / batch * stay
    return setup.engine.request_s + (1 - share) * steady + share * first + queue


# --- Pareto frontier --------------------------------------------------------------------------------------------------


BATCHES = tuple(float(2**power) for power in range(13))


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """All combinations that were looked at, in columns, and which of them nothing else beats in both respects."""

    format_names: tuple[str, ...]
    tp: Column
    attention_dp: Column
    concurrency: Column
    outcome: ServeOutcome
    best: NDArray[np.bool_]
    """Fits, and no other that fits has both more tokens per second per user and more per device."""


def frontier(
    model: Model,
    device: AcceleratorPeaks,
    engine: Constants,
    traffic: Traffic,
    *,
    formats: Sequence[Format],
    sizes: Sequence[int] = (1, 2, 4, 8),
    batches: Sequence[float] = BATCHES,
) -> Frontier:
    """Every format on every tensor parallel size at every number in flight; experts also with copied attention."""
    spread = (0, 1) if np.any(column(model.experts) > 0) else (0,)
    chosen = np.meshgrid(np.arange(len(formats)), sizes, spread, batches, indexing="ij")
    which, tp, copied, flying = (axis.ravel() for axis in chosen)
    once = (copied == 0) | (tp > 1)  # on one device the two are the same
    which, tp, copied, flying = which[once], column(tp[once]), copied[once], column(flying[once])
    attention_dp = np.where(copied > 0, tp, 1.0)
    where = Deployment(tp=tp, ep=np.where(copied > 0, tp, 1.0), attention_dp=attention_dp)
    setup = Setup(model=model, form=_rows(stacked(list(formats)), which), where=where, device=device, engine=engine)
    outcome = serve(setup, replace(traffic, concurrency=flying))
    room = (outcome.fits > 0) & (outcome.batch >= flying)
    return Frontier(
        format_names=tuple(formats[i].name for i in which),
        tp=tp,
        attention_dp=attention_dp,
        concurrency=flying,
        outcome=outcome,
        best=undominated(outcome.tokens_per_s_user, outcome.tokens_per_s_device, room),
    )


def undominated(first: Column, second: Column, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which allowed rows no other allowed row beats in one and reaches in the other.

    From the largest `first` downwards, a row is kept where its `second` is above all before it.
    """
    order = np.lexsort((-second, -first))
    seen = np.where(allowed[order], second[order], -np.inf)
    before = np.concatenate([[-np.inf], np.maximum.accumulate(seen)[:-1]])
    kept = np.zeros(len(first), dtype=np.bool_)
    kept[order] = allowed[order] & (seen > before)
    return kept


def _rows(form: Format, which: NDArray[np.int64]) -> Format:
    taken: dict[str, Any] = {
        field.name: getattr(form, field.name)[which] for field in fields(Format) if field.name != "name"
    }
    return Format(**taken)


@dataclass(frozen=True, kw_only=True)
class ServingRequest:
    """What is to be served, on what, and what users may be made to wait for."""

    model: Model
    machine: Machine
    prompt: int
    output: int
    engine: str
    sizes: tuple[int, ...] = SIZES
    """Devices that hold one copy."""
    dtypes: tuple[str, ...] = ("bf16",)
    cache_dtype: str = "bf16"
    loads: tuple[int, ...] = LOADS
    """Requests in flight on one copy."""
    devices: int | None = None
    price: float | None = None
    most_ttft_s: float | None = None
    most_tpot_s: float | None = None
    measured: MeasuredStep | None = None
    """Of the engine, on this machine: instead of constants that were fitted on others."""

    @property
    def gpu(self) -> str:
        """Its record in the catalogue."""
        return self.machine.base or self.machine.name

    @property
    def situation(self) -> ServingSituation | None:
        """None with a measured step: plans from one were held against no published run."""
        return None if self.measured is not None else situation_of(self.engine, self.gpu)

    def trust(self, metric: str) -> FigureTrust | None:
        """Runs on GPUs say nothing about a CPU."""
        if self.situation is None or self.machine.architecture == "cpu":
            return None
        return trust_of(self.engine, self.situation, metric)


_SHOWN_OF_REQUEST = (
    "model", "machine", "engine", "situation", "cache_dtype", "prompt", "output", "devices", "price", "most_ttft_s",
    "most_tpot_s",
)  # fmt: skip


def plan_serving(request: ServingRequest) -> ServingPlan:
    """All ways to serve that have room, and the best of them."""
    if not request.model.causal:
        raise UsageError(f"{request.model.name or 'this model'} does not write token after token; plan one that does")
    deployments = _looked_at(request)
    fitting = np.flatnonzero(deployments.outcome.fits > 0)
    points = {int(row): _point(request, deployments, int(row)) for row in fitting}
    meeting = [point for point in points.values() if point.meets]
    asked = {name: getattr(request, name) for name in _SHOWN_OF_REQUEST}
    return ServingPlan(
        **asked,
        parameters=int(count_parameters(request.model).total),
        active_parameters=int(active_parameters(request.model)),
        device_bytes=float(device_of(request.machine).memory_bytes),
        measured_here=request.measured is not None or measured_on(request.engine, request.gpu),
        measured=_measured(request),
        points=tuple(points.values()),
        refused=_refused(deployments),
        best=_best(meeting),
        frontier=tuple(
            sorted(
                (point for row, point in points.items() if deployments.best[row]),
                key=lambda serving_point: -serving_point.tokens_per_s_user,  # the fastest for a user first
            )
        ),
        evidence=tuple(_evidence(request)),
        repeats=None if request.trust("ttft_s") is None else first_token_repeats(),
    )


def _evidence(request: ServingRequest) -> Iterator[ServingEvidence]:
    for metric in ("tpot_s", "ttft_s", "latency_s", "tokens_per_s"):
        trust = request.trust(metric)
        if trust is not None:
            told = {name: getattr(trust, name) for name in ("engine", "rows", "groups", "median", "p90")}
            yield ServingEvidence(metric=metric, **told)


def _best(meeting: Sequence[ServingPoint]) -> ServingPoint | None:
    """The most from a device, of those that keep the limits surely enough; where none does, the surest.

    Requests that have no room only wait, so that is not proposed unless nothing else is.
    """
    roomy = [point for point in meeting if point.batch >= point.concurrency] or meeting
    sure = [point for point in roomy if (point.chance_of_missing or 0.0) <= ACCEPTED_CHANCE]
    if not sure and roomy:
        return min(roomy, key=lambda point: point.chance_of_missing or 0.0)
    return max(sure, key=lambda point: point.tokens_per_s_device, default=None)


def _chance_of_missing(request: ServingRequest, ttft_s: Ranged, tpot_s: Ranged) -> float | None:
    limits = ((ttft_s, request.most_ttft_s), (tpot_s, request.most_tpot_s))
    chances = [figure.chance_above(most) for figure, most in limits if most is not None]
    return max((chance for chance in chances if chance is not None), default=None)


def _measured(request: ServingRequest) -> MeasuredEngine | None:
    if request.measured is None:
        return None
    form = format_named(request.dtypes[0], request.cache_dtype)
    return engine_of(request.measured, form, device_of(request.machine))


def _looked_at(request: ServingRequest) -> Frontier:
    measured = _measured(request)
    return frontier(
        request.model,
        device_of(request.machine),
        constants_of(request.engine, request.gpu) if measured is None else measured.constants,
        Traffic(concurrency=1.0, prompt=float(request.prompt), output=float(request.output)),
        formats=[format_named(name, request.cache_dtype) for name in request.dtypes],
        sizes=_sizes(request),
        batches=tuple(map(float, request.loads)),
    )


def _sizes(request: ServingRequest) -> tuple[int, ...]:
    heads = int(request.model.heads)
    most = request.devices or max(request.sizes)
    sizes = tuple(size for size in request.sizes if heads % size == 0 and size <= most)
    if not sizes:
        wanted = ", ".join(map(str, request.sizes))
        raise ParameterError(
            "tp", f" {wanted}: none divides the {heads} attention heads within {most} GPUs; give another"
        )
    return sizes


def _point(request: ServingRequest, deployments: Frontier, row: int) -> ServingPoint:
    outcome = deployments.outcome
    figures: dict[str, Any] = {
        name: _at(value, row) for name, value in vars(outcome).items() if isinstance(value, np.ndarray)
    }
    ranged: dict[str, Any] = {
        name: _ranged(request, name, figures[name]) for name in ("ttft_s", "tpot_s", "latency_s", "tokens_per_s")
    }
    limits = (("ttft_s", request.most_ttft_s), ("tpot_s", request.most_tpot_s))
    tp = int(deployments.tp[row])
    return ServingPoint(
        tp=tp,
        attention_dp=int(deployments.attention_dp[row]),
        dtype=deployments.format_names[row],
        concurrency=int(deployments.concurrency[row]),
        copies=1 if request.devices is None else request.devices // tp,
        step_s=tuple(_at(part, row) for part in outcome.step.parts),
        prompt_s=tuple(_at(part, row) for part in outcome.prompt.parts),
        meets=all(most is None or figures[name] <= most for name, most in limits),
        chance_of_missing=_chance_of_missing(request, ranged["ttft_s"], ranged["tpot_s"]),
        **ranged,
        **{name: figures[name] for name in ("batch", "most", "weights_bytes", "cache_bytes")},
    )


def _at(values: Column, row: int) -> float:
    """A column of one row holds for all."""
    return float(values[row if len(values) > 1 else 0])


def _ranged(request: ServingRequest, metric: str, value: float) -> Ranged:
    trust = request.trust(metric)
    if trust is None:
        return Ranged(value=value)
    return Ranged(value=value, low=value * trust.low, high=value * trust.high)


def _refused(deployments: Frontier) -> tuple[tuple[int, str, float], ...]:
    """The least that each size and format needs where not even one sequence has room."""
    least: dict[tuple[int, str], float] = {}
    fitting = {
        (int(deployments.tp[row]), deployments.format_names[row])
        for row in np.flatnonzero(deployments.outcome.fits > 0)
    }
    for row in np.flatnonzero(deployments.outcome.fits == 0):
        key = int(deployments.tp[row]), deployments.format_names[row]
        least[key] = min(least.get(key, np.inf), _at(deployments.outcome.weights_bytes, int(row)))
    return tuple((*key, size) for key, size in least.items() if key not in fitting)
