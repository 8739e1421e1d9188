"""What the plan of a training job says, in sentences."""

from collections.abc import Iterator, Mapping
from math import isfinite

from redline.plan.train import measured as measured_step
from redline.plan.train.measured import ACCOUNTS, EVERY, STEP, AnchoredAccuracy, FittedJob, MovedConstant
from redline.plan.train.search.plan import Candidate, TrainingPlan
from redline.plan.train.search.plan_trust import NOISY, MeasuredAccuracy, Situation, is_gpu
from redline.plan.train.search.search import Alternative, Change
from redline.plan.train.stacks import DEFAULT_STACK
from redline.plan.train.time.step import Overlap
from redline.report.document import ReportTable
from redline.report.figure_names import unused_of
from redline.report.language import _, clauses, listed, marked, ngettext, sentences
from redline.report.plan import amounts, layouts
from redline.report.plan.amounts import (
    LEFT_OUT,
    UNITS,
    chance,
    count,
    errors,
    gigabytes,
    oom,
    seconds,
    share,
    times,
    within,
)
from redline.report.text_parts import clipped

PARTS: Mapping[str, str] = {
    "compute_s": marked("compute"),
    "recompute_s": marked("recomputation"),
    "host_s": marked("host"),
    "head_s": marked("logits and loss"),
    "tensor_s": marked("TP communication"),
    "context_s": marked("CP communication"),
    "expert_s": marked("EP communication"),
    "pipeline_s": marked("PP sends"),
    "bubble_s": marked("pipeline bubble"),
    "gather_s": marked("weight all-gather"),
    "reduce_s": marked("gradient reduction"),
    "optimizer_s": marked("optimizer"),
    "offload_s": marked("offloading"),
}
HOLDERS: Mapping[str, str] = {
    "weights_bytes": marked("weights"),
    "gradients_bytes": marked("gradients"),
    "optimizer_bytes": marked("optimizer states"),
    "activations_bytes": marked("activations"),
    "head_bytes": marked("logits and loss"),
    "gathers_bytes": marked("gathered weights"),
    "temporaries_bytes": marked("temporaries and workspaces"),
    "communicators_bytes": marked("communicators"),
    "allocator_bytes": marked("allocator overhead"),
}
_HIDDEN = ("gather", "tensor", "context", "expert", "pipeline")
OVERLAPS: Mapping[str, str] = {"data": PARTS["reduce_s"], **{kind: PARTS[f"{kind}_s"] for kind in _HIDDEN}}
BETTER: Mapping[str, str] = {
    "memory": marked("GPU memory"),
    "network": marked("network between nodes"),
    "links": marked("links inside a node"),
    "compute": marked("compute rate"),
    "host": marked("host time"),
}
_FAINT = 0.005  # a change of less is none
_TWICE = 2.0  # from here on a multiple is easier to read than a share
_MEMORY_OF_STATES = ("weights_bytes", "gradients_bytes", "optimizer_bytes", "gathers_bytes", "temporaries_bytes")

# --- the first screen -------------------------------------------------------------------------------------------------


def headline(plan: TrainingPlan) -> str:
    text = _("{model} on {count:,} {machine} in {dtype}, estimated for {stack}")
    return text.format(
        model=model_name(plan),
        count=plan.devices,
        machine=clipped(plan.machine.name, 60),
        dtype=plan.dtype,
        stack=stack_name(plan.stack),
    )


def stack_name(stack: str) -> str:
    return _("common software stacks") if stack == DEFAULT_STACK else clipped(stack, 40)


def model_name(plan: TrainingPlan) -> str:
    return amounts.model_name(plan.workload.name)


def verdict(plan: TrainingPlan) -> str:
    """The answer, or that there is none."""
    best = layouts.as_text(plan.best.layout, plan.best.micro_batches)
    if not plan.fits:
        return _(
            "Nothing fits. The smallest layout, {layout}, needs {peak} of {device} per GPU: OOM probability {chance}."
        ).format(
            layout=best,
            peak=gigabytes(plan.best.peak_bytes),
            device=gigabytes(plan.device_bytes),
            chance=chance(plan.best.chance),
        )
    return best


def machine(plan: TrainingPlan) -> str:
    text = _("{count:,} {machine} in nodes of {node}, {memory} each")
    return text.format(
        count=plan.devices,
        machine=clipped(plan.machine.name, 60),
        node=plan.devices_per_node,
        memory=gigabytes(plan.device_bytes),
    )


def batch(plan: TrainingPlan) -> str:
    if counts_samples(plan):
        return _("{samples:,.0f} samples per step").format(samples=plan.batch.sequences)
    text = _("{sequences:,.0f} sequences of {length:,.0f} tokens: {tokens} tokens per step")
    return text.format(
        sequences=plan.batch.sequences, length=plan.batch.sequence, tokens=count(plan.tokens_per_step)
    )  # fmt: skip


def step(plan: TrainingPlan, candidate: Candidate) -> str:
    if counts_samples(plan):
        return clauses([seconds(candidate.step_s), _("no interval: no custom modules were measured")])
    return within(*map(seconds, (candidate.step_s, candidate.step_low_s, candidate.step_high_s)))


def speed(plan: TrainingPlan, candidate: Candidate) -> str:
    text = _("{all} {unit}, {each} per GPU; MFU {mfu}")
    return text.format(
        unit=per_second(plan),
        all=count(candidate.tokens_per_s), each=count(candidate.tokens_per_s / plan.devices), mfu=share(candidate.mfu)
    )  # fmt: skip


def memory(plan: TrainingPlan, candidate: Candidate) -> str:
    peak = _at_the_peak(plan, candidate)
    if not counts_samples(plan):
        peak = within(peak, gigabytes(candidate.peak_low_bytes), gigabytes(candidate.peak_high_bytes))
    return clauses([peak, oom(candidate.chance)])


def _at_the_peak(plan: TrainingPlan, candidate: Candidate) -> str:
    text = _("{peak} of {device} at the peak")
    return text.format(peak=gigabytes(candidate.peak_bytes), device=gigabytes(plan.device_bytes))


def safer(plan: TrainingPlan, candidate: Candidate) -> str:
    layout = layouts.as_text(candidate.layout, candidate.micro_batches)
    slower = _("{share} slower").format(share=share(candidate.step_s / plan.best.step_s - 1))
    return clauses([layout, slower, _at_the_peak(plan, candidate), oom(candidate.chance)])


def searched(plan: TrainingPlan) -> str:
    if plan.considered == 1:
        return _("one layout, as given")
    first = (_("{count:,} layouts can run, {fitting:,} of them with an OOM probability of at most {chance}")).format(
        count=plan.considered, fitting=plan.fitting, chance=chance(plan.accepted_chance)
    )
    if not plan.fits:
        return first
    if plan.by == "memory":
        return clauses([first, _("this is the smallest")])
    fastest_s = min((candidate.step_s for candidate in plan.frontier), default=plan.best.step_s)
    is_fastest = plan.best.step_s <= fastest_s * 1.001
    safest = _("this is the safest within 2 % of the fastest")
    return clauses([first, _("this is the fastest") if is_fastest else safest])


def advice(plan: TrainingPlan) -> Iterator[str]:
    """Where nothing fits: what holds most of the memory, and what can be done about it."""
    if plan.fits:
        return
    biggest = max(HOLDERS, key=lambda name: float(getattr(plan.best.memory, name)))
    held = float(getattr(plan.best.memory, biggest))
    yield _("The largest part is {holder}: {size}.").format(size=gigabytes(held), holder=_(HOLDERS[biggest]))
    if biggest in _MEMORY_OF_STATES:
        yield _("More GPUs split that further, and offloading moves the optimizer to the host.")
    else:
        yield (
            _("A smaller micro-batch or full recomputation reduces that.")
            if counts_samples(plan)
            else _("Shorter sequences, a smaller micro-batch, a larger cp or full recomputation reduce that.")
        )
    more = next((better for better in plan.changes if better.what == "memory"), None)
    if more is not None and more.differs:
        yield _("It would fit with {factor} the memory per GPU.").format(factor=f"{more.factor:g}x")


# --- traffic and compute ----------------------------------------------------------------------------------------------


def overlap(traffic: Overlap) -> str:
    """Whether traffic hides."""
    return _("hidden") if traffic.is_hidden else _("exposed: {time} per step").format(time=seconds(traffic.exposed_s))


# --- other layouts ----------------------------------------------------------------------------------------------------


def slower(alternative: Alternative, plan: TrainingPlan) -> str:
    if not alternative.fits and plan.fits:
        return _("does not fit")
    if abs(alternative.slower - 1) < _FAINT:
        return _("no slower")
    if alternative.slower < 1:
        return _("{share} faster").format(share=share(1 / alternative.slower - 1))
    if alternative.slower < _TWICE:
        return _("{share} slower").format(share=share(alternative.slower - 1))
    return _("{times} as long").format(times=times(alternative.slower))


def why(alternative: Alternative, plan: TrainingPlan) -> str:
    """What is worse about it."""
    if alternative.cause == "memory":
        return _("the smallest needs {times} the memory of a GPU").format(times=times(alternative.grown))
    if alternative.slower < 1 - _FAINT:
        return _("but it needs more memory")
    if alternative.slower < 1 + _FAINT:
        return _("the difference is within the prediction error")
    part = _(PARTS[f"{alternative.cause}_s"])
    said = _("{part}: {time} more").format(part=part, time=seconds(alternative.grown_s))
    if isfinite(alternative.grown):
        said = f"{said} ({times(alternative.grown)})"
    return clauses([said, _("crosses nodes")]) if _leaves_the_node(alternative, plan) else said


def _leaves_the_node(alternative: Alternative, plan: TrainingPlan) -> bool:
    """Whether the traffic that grew now passes between nodes, and did not in the best layout."""
    groups = {"tensor": ("tp",), "context": ("tp", "cp"), "expert": ("tp", "ep")}.get(alternative.cause)
    if groups is None:
        return False
    before = after = 1.0
    for name in groups:
        before, after = before * getattr(plan.best.layout, name), after * getattr(alternative.layout, name)
    return before <= plan.devices_per_node < after


def changes(plan: TrainingPlan) -> tuple[str, ...]:
    return tuple(map(change, plan.changes)) if plan.fits else ()


def change(better: Change) -> str:
    """What a better machine would change."""
    text = _("{factor} the {what}: {effect}")
    return text.format(factor=f"{better.factor:g}x", what=_(BETTER[better.what]), effect=effect(better))


def effect(better: Change) -> str:
    if not isfinite(better.faster) or better.faster <= 0:
        return _("still nothing would fit")
    is_faster = better.faster - 1 >= _FAINT
    gain = _("{share} faster").format(share=share(better.faster - 1)) if is_faster else _("hardly faster")
    if not better.differs:
        return _("{gain}, the same layout").format(gain=gain)
    micro_batch = layouts.value_as_text("micro_batch", int(better.layout.micro_batch))
    kept = [layouts.split(better.layout), micro_batch]
    kept += [layouts.sharding(better.layout)] if better.layout.zero else []
    policy = layouts.value_as_text("recompute", int(better.layout.recompute))
    return _("{gain}, with {layout}").format(gain=gain, layout=_(", ").join([*kept, policy]))


# --- trust ------------------------------------------------------------------------------------------------------------


# What a plan has in common with no run that was fitted to.
NEW = {
    Situation.LAYOUT: marked("runs of this model on as many of these GPUs with this software were fitted to"),
    Situation.GPU_ANYWHERE: marked("a GPU of which no runs are published"),
    Situation.STACK: marked("software that is not known: give --stack if it is one of those that were measured"),
}


def known(plan: TrainingPlan) -> str:
    """For the first lines: what is new about the plan, and how far such plans were off."""
    if plan.measured is not None:
        return anchored(plan.measured.accuracy)
    said = [_(NEW[new]) for new in plan.trust.situations if new in NEW]
    of_gpu = {Situation.GPU: _("GPU or number format")}
    words = [of_gpu.get(new) or _(LEFT_OUT[new]) for new in plan.trust.situations if new not in NEW]
    if words:
        said.append(_("not measured with this software: {what}").format(what=listed(words)))
    said.append(evidence(_accuracy(plan, "step"), plan.stack))
    if plan.trust.profile_error > NOISY:
        said.append(
            _("the profile is noisy: its model of matmuls is {error} off, and the interval as wide").format(
                error=share(plan.trust.profile_error)
            )
        )
    return clauses(said)


def trust(plan: TrainingPlan) -> Iterator[str]:
    """What stands behind the figures, and what they leave out."""
    for what, name in (("step", _("step time")), ("memory", memory_name(plan))):
        if what == "step" and plan.measured is not None:
            yield _anchored_trust(plan.measured.accuracy)
            continue
        yield _("{name}: {evidence}").format(name=name, evidence=evidence(_accuracy(plan, what), plan.stack))
    if plan.evidence:
        yield rests_on(plan)
    yield not_modelled(plan)


def memory_name(plan: TrainingPlan) -> str:
    return _("GPU memory") if is_gpu(plan.machine) else _("memory")


def _accuracy(plan: TrainingPlan, what: str) -> MeasuredAccuracy | None:
    return next((accuracy for accuracy in plan.evidence if accuracy.what == what), None)


def rests_on(plan: TrainingPlan) -> str:
    """What the 80 % interval of the step rests on."""
    text = ngettext(
        "It is at least as wide as that of {runs:,} run of other people, to which nothing was fitted.",
        "It is at least as wide as that of {runs:,} runs of other people, to which nothing was fitted.",
        plan.trust.users,
    )
    return sentences([_runs_like_it(plan), text.format(runs=plan.trust.users)])


def _runs_like_it(plan: TrainingPlan) -> str:
    if not plan.trust.runs:
        return _("The 80 % interval comes from other software or GPUs: none of these runs is like this plan.")
    text = ngettext(
        "The 80 % interval rests on {runs:,} run of this software on this GPU, left out of the fit with its like.",
        "The 80 % interval rests on {runs:,} runs of this software on this GPU, left out of the fit with their like.",
        plan.trust.runs,
    )
    return text.format(runs=plan.trust.runs)


def evidence(accuracy: MeasuredAccuracy | None, stack: str) -> str:
    if accuracy is None or not accuracy.rows:
        return _("not backed by any measured run; treat it as a guess")
    own = accuracy.stack == stack
    whose = _("of {stack}").format(stack=stack_name(stack)) if own else _("of all software stacks")
    return errors(accuracy, accuracy.situation, whose)


def not_modelled(plan: TrainingPlan) -> str:
    """What is in no figure, so that nobody believes it is."""
    said = [
        unused_of(plan.machine),
        _("Not in these figures: waiting for data, evaluation, other jobs on the same network, slow machines."),
        _("Assumes that all experts get the same number of tokens.") if plan.workload.experts else "",
        _(
            "Assumes that convolutions reach the efficiency of matmuls, and that the module consists of "
            "identical blocks."
        )
        if counts_samples(plan)
        else "",
    ]
    return sentences(said)


# --- what is counted: tokens, or samples of a module of the user's own ------------------------------------------------


def counts_samples(plan: TrainingPlan) -> bool:
    return plan.unit == "samples"


def per_second(plan: TrainingPlan) -> str:
    return _("{unit}/s").format(unit=_(UNITS[plan.unit]))


def per_second_and_gpu(plan: TrainingPlan) -> str:
    return _("{unit}/s/GPU").format(unit=_(UNITS[plan.unit]))


# --- the measured step that constants were fitted to ------------------------------------------------------------------


ACCOUNT_TEXTS: Mapping[str, str] = {
    "compute": marked("compute"),
    "optimizer": marked("optimizer"),
    "host": marked("host"),
    "communication": marked("exposed communication"),
    "waiting": marked("waiting for other stages"),
    "traffic": marked("all communication, hidden or not"),
    "matmuls": marked("of compute: matmuls"),
    "attention": marked("of compute: attention"),
}
_SHOWN_CONSTANTS = 6


def measured_fact(fitted: FittedJob) -> str:
    measured = fitted.measured
    micro_batches = int(measured.batch.sequences / (measured.layout.dp * measured.layout.micro_batch))
    text = _("{step} per step of {layout}; predicted without it: {before}, with it: {after}")
    return text.format(
        step=seconds(measured.step_s),
        layout=layouts.as_text(measured.layout, micro_batches),
        before=seconds(fitted.before[STEP]),
        after=seconds(fitted.after[STEP]),
    )


def measured_accounts(fitted: FittedJob) -> ReportTable:
    """Account by account, as far as they were recorded."""
    measured = fitted.measured
    known = (measured.accounts, fitted.before, fitted.after)
    rows = [
        (_(ACCOUNT_TEXTS[name]), *(seconds(amounts[name]) for amounts in known))
        for name in (*ACCOUNTS, *measured_step.PARTS)
        if name in measured.accounts
    ]
    rows.append((_("= step"), *map(seconds, (measured.step_s, fitted.before[STEP], fitted.after[STEP]))))
    return ReportTable(
        title=_("the measured step, account by account"),
        head=(_("account"), _("measured"), _("predicted before"), _("after the fit")),
        rows=tuple(rows),
        notes=tuple(_fit_notes(fitted)),
    )


def _fit_notes(fitted: FittedJob) -> Iterator[str]:
    moved = [_constant(each) for each in fitted.moved[:_SHOWN_CONSTANTS]]
    if moved:
        yield _("Constants of the software stack fitted to it: {constants}.").format(constants=listed(moved))
    if fitted.measured.inferred:
        yield _("Read from the recording: {names}.").format(names=listed(fitted.measured.inferred))
    if fitted.measured.unseen:
        yield sentences([f"{remark}." for remark in map(_, fitted.measured.unseen)])


def _constant(moved: MovedConstant) -> str:
    return f"{moved.name} {moved.before:.3g} -> {moved.after:.3g}"


def anchored(accuracy: AnchoredAccuracy | None) -> str:
    """For the first lines."""
    if accuracy is None:
        return _("from a measured step of this job, on a machine without published runs: never scored")
    text = _("from a measured step of this job: median error {median}, p90 {p90}")
    return text.format(median=share(accuracy.median), p90=share(accuracy.p90))


def _anchored_trust(accuracy: AnchoredAccuracy | None) -> str:
    if accuracy is None:
        return _("{name}: {evidence}").format(name=_("step time"), evidence=anchored(None))
    text = _(
        "step time from a measured step of the same job: median error {median}, p90 {p90}, on other layouts of "
        "published jobs ({jobs:,}, {whose}) whose models were left out; without the step {median_without}, "
        "{p90_without}"
    )
    whose = _("of all software stacks") if accuracy.stack == EVERY else _("of {stack}")
    return text.format(
        median=share(accuracy.median),
        p90=share(accuracy.p90),
        median_without=share(accuracy.median_without),
        p90_without=share(accuracy.p90_without),
        jobs=accuracy.jobs,
        whose=whose.format(stack=clipped(accuracy.stack, 40)),
    )
