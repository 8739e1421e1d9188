"""What a plan of serving says, in sentences."""

from collections.abc import Iterator, Mapping

from redline.planner.serve.serving_cost import ServingLimit
from redline.planner.serve.serving_plan import Ranged, ServingPlan, ServingPoint
from redline.report.figure_names import unused_of
from redline.report.language import _, clauses, listed, marked, ngettext
from redline.report.plan.amounts import count, gigabytes, interval, parameters, seconds, share
from redline.report.text_parts import clipped

LIMITS: Mapping[ServingLimit, str] = {
    ServingLimit.COMPUTE: marked("compute"),
    ServingLimit.MEMORY: marked("memory"),
    ServingLimit.COMMUNICATION: marked("communication"),
    ServingLimit.OVERHEAD: marked("overhead"),
}
METRICS: Mapping[str, str] = {
    "ttft_s": marked("first token"),
    "tpot_s": marked("per token"),
    "latency_s": marked("request"),
    "tokens_per_s": marked("throughput"),
}


# --- the first screen -------------------------------------------------------------------------------------------------


def headline(plan: ServingPlan) -> str:
    text = _("{model} on {machine}, served by {engine}")
    return text.format(model=model_name(plan), machine=clipped(plan.machine.name, 60), engine=clipped(plan.engine, 40))


def model_name(plan: ServingPlan) -> str:
    return clipped(plan.model.name, 60) or _("a model")


def verdict(plan: ServingPlan) -> str:
    """The best way to serve, or that there is none."""
    if plan.best is not None:
        return _("{way}: {speed} tokens/s per GPU{interval}").format(
            way=way(plan.best), speed=count(plan.best.tokens_per_s_device), interval=_speeds(plan.best)
        )
    if not plan.points:
        tp, dtype, weights = min(plan.refused, key=lambda one: one[2])
        text = _("Nothing fits. Even tp {tp} in {dtype} needs {weights} on each GPU for weights alone, of {device}.")
        return text.format(tp=tp, dtype=dtype, weights=gigabytes(weights), device=gigabytes(plan.device_bytes))
    nearest = min(plan.points, key=lambda one: _beyond(plan, one))
    text = _(
        "No way to serve meets the limits. The nearest, {way}, has the first token after {first}, then {each} each."
    )
    return text.format(way=way(nearest), first=seconds(nearest.ttft_s.value), each=seconds(nearest.tpot_s.value))


def _speeds(one: ServingPoint) -> str:
    """The interval of the throughput of a GPU, where it is known."""
    figure = one.tokens_per_s
    if figure.low is None or figure.high is None:
        return ""
    return _(" ({low} to {high})").format(low=count(figure.low / one.tp), high=count(figure.high / one.tp))


def _beyond(plan: ServingPlan, one: ServingPoint) -> float:
    """By which factor the worst limit is missed."""
    wanted = ((one.ttft_s.value, plan.most_ttft_s), (one.tpot_s.value, plan.most_tpot_s))
    return max(value / most for value, most in wanted if most is not None)


def way(one: ServingPoint) -> str:
    text = ngettext(
        "{size} in {dtype} with {load:,} request in flight",
        "{size} in {dtype} with {load:,} requests in flight",
        one.concurrency,
    )
    return text.format(size=size(one), dtype=one.dtype, load=one.concurrency)


def size(one: ServingPoint) -> str:
    """How the GPUs of a copy share it."""
    return f"tp {one.tp}" if one.attention_dp == 1 else _("ep {size} with copied attention").format(size=one.tp)


def limits(plan: ServingPlan) -> str:
    said = []
    if plan.most_ttft_s is not None:
        said.append(_("the first token within {time}").format(time=seconds(plan.most_ttft_s)))
    if plan.most_tpot_s is not None:
        said.append(_("further ones within {time} each").format(time=seconds(plan.most_tpot_s)))
    return listed(said)


def requests(plan: ServingPlan) -> str:
    text = _("{prompt:,} tokens of prompt, {output:,} tokens of output; a request that ends is replaced at once")
    return text.format(prompt=plan.prompt, output=plan.output)


def facts(plan: ServingPlan) -> Iterator[tuple[str, str]]:
    yield _("model"), parameters(plan.parameters, plan.active_parameters)
    yield _("requests"), requests(plan)
    if limits(plan):
        yield _("limits"), limits(plan)
    best = plan.best
    if best is None:
        return
    yield _("first token"), ranged(best.ttft_s)
    per_user = _("{rate} tokens/s for a user").format(rate=count(best.tokens_per_s_user))
    yield _("per token"), clauses([ranged(best.tpot_s), per_user])
    yield _("request"), ranged(best.latency_s)
    yield _("GPU memory"), memory(plan, best)
    if plan.devices is not None:
        yield _("copies"), copies(plan, best)
    if plan.price is not None:
        cost = plan.cost_per_million(best)
        text = _("{cost:.3g} for a million output tokens at {price:g} per GPU-hour")
        yield _("money"), text.format(cost=cost, price=plan.price)


def ranged(figure: Ranged) -> str:
    """A time with the interval of such predictions."""
    if figure.low is None or figure.high is None:
        return _("{value}; no interval: no such figure of this engine on this GPU was published").format(
            value=seconds(figure.value)
        )
    found = interval(seconds(figure.low), seconds(figure.high))
    return _("{value}; 80 % interval: {interval}").format(value=seconds(figure.value), interval=found)


def memory(plan: ServingPlan, one: ServingPoint) -> str:
    text = _("{weights} of weights and {cache} of cache, of {device}; room for {most:,.0f} sequences at once")
    return text.format(
        weights=gigabytes(one.weights_bytes),
        cache=gigabytes(one.cache_bytes),
        device=gigabytes(plan.device_bytes),
        most=one.most,
    )


def copies(plan: ServingPlan, one: ServingPoint) -> str:
    text = _("{copies:,} on {devices:,} GPUs: {speed} tokens/s, {load:,} requests in flight in all")
    return text.format(
        copies=one.copies,
        devices=plan.devices,
        speed=count(one.copies * one.tokens_per_s.value),
        load=one.copies * one.concurrency,
    )


def refused(plan: ServingPlan) -> Iterator[str]:
    text = _("tp {tp} in {dtype}: {weights} of weights on each GPU leave no room for a sequence")
    for tp, dtype, weights in plan.refused:
        yield text.format(tp=tp, dtype=dtype, weights=gigabytes(weights))


# --- trust ------------------------------------------------------------------------------------------------------------


def trust(plan: ServingPlan) -> Iterator[str]:
    """What stands behind the figures, and what they leave out."""
    text = _("{metric}: median error {median}, p90 {p90}, on {rows:,} held-out runs of {engine}")
    for one in plan.evidence:
        yield text.format(
            metric=_(METRICS[one.metric]),
            rows=one.rows,
            engine=clipped(plan.engine, 40),
            median=share(one.median),
            p90=share(one.p90),
        )
    if not plan.measured_here:
        text = _(
            "No run of {engine} on {machine} was published: constants are those of other GPUs, without an interval."
        )
        yield text.format(engine=clipped(plan.engine, 40), machine=clipped(plan.machine.name, 60))
    yield _(
        "Not in these figures: requests of different lengths, shared prefixes, speculative decoding, and prompts and "
        "decoding on separate GPUs."
    )
    not_used = unused_of(plan.machine)
    if not_used:
        yield not_used
