"""What a plan of serving says, in sentences."""

from collections.abc import Iterator, Mapping

from redline.plan.serve.forward_passes import MeasuredEngine, ServingLimit
from redline.plan.serve.serving_plan import (
    EVERY,
    Ranged,
    ServingEvidence,
    ServingPlan,
    ServingPoint,
    ServingSituation,
)
from redline.report.figure_names import unused_of
from redline.report.language import _, clauses, listed, marked, ngettext
from redline.report.plan.amounts import (
    chance,
    count,
    errors,
    gigabytes,
    model_name,
    parameters,
    seconds,
    share,
    within,
)
from redline.report.text_parts import clipped

LIMITS: Mapping[ServingLimit, str] = {
    ServingLimit.COMPUTE: marked("compute"),
    ServingLimit.MEMORY: marked("memory"),
    ServingLimit.COMMUNICATION: marked("communication"),
    ServingLimit.OVERHEAD: marked("overhead"),
}
METRICS: Mapping[str, str] = {
    "ttft_s": marked("TTFT"),
    "tpot_s": marked("TPOT"),
    "latency_s": marked("request"),
    "tokens_per_s": marked("throughput"),
}


# --- the first screen -------------------------------------------------------------------------------------------------


def headline(plan: ServingPlan) -> str:
    text = _("{model} on {machine}, served by {engine}")
    return text.format(
        model=model_name(plan.model.name), machine=clipped(plan.machine.name, 60), engine=clipped(plan.engine, 40)
    )


def verdict(plan: ServingPlan) -> str:
    """The best way to serve, or that there is none."""
    if plan.best is not None:
        return _("{way}: {speed} tokens/s per GPU").format(way=way(plan.best), speed=_speed(plan.best))
    if not plan.points:
        tp, dtype, weights = min(plan.refused, key=lambda refusal: refusal[2])
        text = _("Nothing fits. Even tp {tp} in {dtype} needs {weights} of {device} on each GPU for weights alone.")
        return text.format(tp=tp, dtype=dtype, weights=gigabytes(weights), device=gigabytes(plan.device_bytes))
    nearest = min(plan.points, key=lambda point: _beyond(plan, point))
    text = _("No configuration meets the limits. The closest, {way}, has a TTFT of {first} and a TPOT of {each}.")
    return text.format(way=way(nearest), first=seconds(nearest.ttft_s.value), each=seconds(nearest.tpot_s.value))


def _speed(point: ServingPoint) -> str:
    """Throughput of a GPU, with its interval where it is known."""
    figure = point.tokens_per_s
    if figure.low is None or figure.high is None:
        return count(point.tokens_per_s_device)
    ends = {"low": count(figure.low / point.tp), "high": count(figure.high / point.tp)}
    return _("{likely} ({low} to {high})").format(likely=count(point.tokens_per_s_device), **ends)


def _beyond(plan: ServingPlan, serving_point: ServingPoint) -> float:
    """By which factor the worst limit is missed."""
    wanted = ((serving_point.ttft_s.value, plan.most_ttft_s), (serving_point.tpot_s.value, plan.most_tpot_s))
    return max(value / most for value, most in wanted if most is not None)


def way(serving_point: ServingPoint) -> str:
    text = ngettext(
        "{size} in {dtype} with {load:,} concurrent request",
        "{size} in {dtype} with {load:,} concurrent requests",
        serving_point.concurrency,
    )
    return text.format(size=size(serving_point), dtype=serving_point.dtype, load=serving_point.concurrency)


def size(serving_point: ServingPoint) -> str:
    """How the GPUs of a copy share it."""
    return (
        f"tp {serving_point.tp}"
        if serving_point.attention_dp == 1
        else _("ep {size} with replicated attention").format(size=serving_point.tp)
    )


def limits(plan: ServingPlan) -> str:
    most = ((_("TTFT"), plan.most_ttft_s), (_("TPOT"), plan.most_tpot_s))
    text = _("{figure} at most {time}")
    said = [text.format(figure=figure, time=seconds(time_s)) for figure, time_s in most if time_s is not None]
    missing = None if plan.best is None else plan.best.chance_of_missing
    if missing is None:
        return listed(said)
    return clauses([listed(said), _("probability of missing one: {share}").format(share=chance(missing))])


def requests(plan: ServingPlan) -> str:
    text = _("{prompt:,} prompt tokens, {output:,} output tokens; a finished request is replaced at once")
    return text.format(prompt=plan.prompt, output=plan.output)


def facts(plan: ServingPlan) -> Iterator[tuple[str, str]]:
    if known(plan):
        yield _("errors"), known(plan)
    yield _("model"), parameters(plan.parameters, plan.active_parameters)
    yield _("requests"), requests(plan)
    if limits(plan):
        yield _("limits"), limits(plan)
    best = plan.best
    if best is None:
        return
    yield _("TTFT"), ranged(best.ttft_s)
    per_user = _("{rate} tokens/s per user").format(rate=count(best.tokens_per_s_user))
    yield _("TPOT"), clauses([ranged(best.tpot_s), per_user])
    yield _("request"), ranged(best.latency_s)
    yield _("GPU memory"), memory(plan, best)
    if plan.devices is not None:
        yield _("replicas"), copies(plan, best)
    if plan.price is not None:
        cost = plan.cost_per_million(best)
        text = _("{cost:.3g} per million output tokens at {price:g} per GPU-hour")
        yield _("money"), text.format(cost=cost, price=plan.price)


def ranged(figure: Ranged) -> str:
    """A time with the interval of such predictions."""
    if figure.low is None or figure.high is None:
        return clauses([seconds(figure.value), unscored()])
    return within(seconds(figure.value), seconds(figure.low), seconds(figure.high))


def unscored() -> str:
    return _("no interval: no published measurements to score it with")


def memory(plan: ServingPlan, serving_point: ServingPoint) -> str:
    text = _("{weights} weights and {cache} KV cache of {device}; room for {most:,.0f} concurrent sequences")
    return text.format(
        weights=gigabytes(serving_point.weights_bytes),
        cache=gigabytes(serving_point.cache_bytes),
        device=gigabytes(plan.device_bytes),
        most=serving_point.most,
    )


def copies(plan: ServingPlan, serving_point: ServingPoint) -> str:
    text = _("{copies:,} on {devices:,} GPUs: {speed} tokens/s and {load:,} concurrent requests in total")
    return text.format(
        copies=serving_point.copies,
        devices=plan.devices,
        speed=count(serving_point.copies * serving_point.tokens_per_s.value),
        load=serving_point.copies * serving_point.concurrency,
    )


def refused(plan: ServingPlan) -> Iterator[str]:
    text = _("tp {tp} in {dtype}: {weights} of weights per GPU leaves no room for a sequence")
    for tp, dtype, weights in plan.refused:
        yield text.format(tp=tp, dtype=dtype, weights=gigabytes(weights))


# --- trust ------------------------------------------------------------------------------------------------------------


def _measured(measured: MeasuredEngine) -> str:
    step = measured.step
    return _(
        "From {steps:,} measured steps of {batch:.0f} sequences with {context:,.0f} tokens before them: {model} in the "
        "model, of which this machine needs {roof} at its peaks, and {around} around it. Matrix products reach {share} "
        "of the peaks; what the model takes besides counts per layer."
    ).format(
        steps=step.steps,
        batch=step.batch,
        context=step.context,
        model=seconds(step.model_s),
        roof=seconds(measured.roof_s),
        around=seconds(step.around_s),
        share=share(step.peak_share),
    )


NEW: Mapping[ServingSituation, str] = {
    ServingSituation.MODEL: marked("this GPU was measured with {engine}"),
    ServingSituation.GPU: marked("this GPU was never measured with {engine}: constants are from others of its family"),
    ServingSituation.FAMILY: marked("no GPU of this family was measured with {engine}: constants are from other GPUs"),
}


def known(plan: ServingPlan) -> str:
    """For the first lines: what is new about the plan, and how far such plans were off."""
    if plan.situation is None:
        return ""
    said = [_(NEW[plan.situation]).format(engine=clipped(plan.engine, 40))]
    return clauses([*said, *(_evidence(plan, plan.situation, evidence) for evidence in plan.evidence[:1])])


def _evidence(plan: ServingPlan, situation: ServingSituation, evidence: ServingEvidence) -> str:
    own = _("of {engine}").format(engine=clipped(plan.engine, 40))
    whose = _("of all engines") if evidence.engine == EVERY else own
    said = errors(evidence, situation, whose)
    return _("{name}: {evidence}").format(name=_(METRICS[evidence.metric]), evidence=said)


def repeats_as_text(shares: Mapping[str, float]) -> str:
    """As the record of repeats has them."""
    return _(
        "TTFT: a repeat of a run, with the same prompts and as many concurrent requests, is off by {median} in the "
        "median (p90 {p90}); a plan of these runs by {predicted_median} (p90 {predicted_p90})"
    ).format(**{name: share(shares[name]) for name in ("median", "p90", "predicted_median", "predicted_p90")})


def trust(plan: ServingPlan) -> Iterator[str]:
    """What stands behind the figures, and what they leave out."""
    if plan.situation is not None:
        yield from (_evidence(plan, plan.situation, evidence) for evidence in plan.evidence)
    if plan.repeats is not None:
        yield repeats_as_text(vars(plan.repeats))
    if any(evidence.engine == EVERY for evidence in plan.evidence):
        text = _("Too few runs of {engine} could be left out so: its intervals are mostly those of other engines.")
        yield text.format(engine=clipped(plan.engine, 40))
    if plan.measured is not None:
        yield _measured(plan.measured)
    yield _(
        "Not in these figures: requests of different lengths, shared prefixes, speculative decoding, and "
        "disaggregated prefill and decode."
    )
    not_used = unused_of(plan.machine)
    if not_used:
        yield not_used
