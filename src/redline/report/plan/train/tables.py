"""The tables and bars of a plan of a training job: its step, traffic, the best layouts, what is worse about others."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from redline.plan.train.search.plan import Candidate, TrainingPlan
from redline.plan.train.search.search import Alternative
from redline.report.document import ReportTable, StackedBars, StackedPart
from redline.report.language import _
from redline.report.plan import layouts
from redline.report.plan.amounts import count, gigabytes, seconds, share, short_chance, times
from redline.report.plan.train import training_messages as say
from redline.report.text_parts import clipped

# Which colour of style.css each part has; names of accounts where they are alike.
COLOURS = {
    "compute": "compute", "recompute": "kernel-loss", "host": "host", "head": "memory", "tensor": "transfer",
    "context": "transfer", "expert": "transfer", "pipeline": "peer-wait", "bubble": "queue", "gather": "copy",
    "reduce": "copy", "optimizer": "sync", "offload": "input", "weights": "math", "gradients": "copy",
    "activations": "compute", "gathers": "peer-wait", "temporaries": "queue",
    "communicators": "transfer", "allocator": "other",
}  # fmt: skip
_FAINT = 0.0005  # of the whole: less has no bar of its own
_NEAR = 2  # values of a dimension on either side of the best that a person asks for first


def overlaps(plan: TrainingPlan) -> ReportTable:
    """Compute per traffic, and whether it hides."""
    head = (_("communication"), _("compute"), _("comm. time"), _("ratio"), _("result"))
    rows = tuple(
        (
            _(say.OVERLAPS[overlap.kind]),
            seconds(overlap.compute_s),
            seconds(overlap.traffic_s),
            times(overlap.ratio),
            say.overlap(overlap),
        )
        for overlap in plan.overlaps
    )
    text = _(
        "All figures are of one step, on the slowest stage. A ratio of 1 or more is needed to hide all of it, but "
        "software hides less: the data-parallel overlap fitted to measurements of this stack is {share}."
    )
    note = text.format(share=share(float(plan.rates.overlap)))
    title = _("communication, and the compute that can hide it")
    return ReportTable(title=title, head=head, rows=rows, notes=(note,), empty=_("no communication: a single GPU"))


def ranked(plan: TrainingPlan, *, brief: bool) -> ReportTable:
    """The best, and those after it. `brief` is narrow enough for a terminal."""
    names = [
        name for name in layouts.DIMENSIONS if any(getattr(candidate.layout, name) > 1 for candidate in plan.ranked)
    ]
    has_pipeline = any(candidate.layout.pp > 1 for candidate in plan.ranked)
    head = (
        *names, "ZeRO", *([_("schedule")] if has_pipeline else []), _("micro"), _("recompute"), _("step"), _("slower"),
        *([] if brief else [say.per_second_and_gpu(plan), "MFU"]), _("GPU memory"), _("OOM"),
    )  # fmt: skip
    rows = tuple(_ranked_row(plan, candidate, names, has_pipeline, brief) for candidate in plan.ranked)
    notes = [_("micro: size of a micro-batch; OOM: probability of running out of memory")]
    if any(candidate.layout.zero == 3 and candidate.layout.shard for candidate in plan.ranked):
        notes.append(_("ZeRO 3 / 8: split inside groups of 8 (HSDP)"))
    return ReportTable(title=_("the best layouts"), head=head, rows=rows, notes=tuple(notes))


def _ranked_row(
    plan: TrainingPlan, candidate: Candidate, names: Sequence[str], has_pipeline: bool, brief: bool
) -> tuple[str, ...]:
    return (
        *(str(int(getattr(candidate.layout, name))) for name in names),
        layouts.short_sharding(candidate.layout),
        *([layouts.short_pipeline(candidate.layout)] if has_pipeline else []),
        str(int(candidate.layout.micro_batch)),
        layouts.recompute(candidate.layout),
        seconds(candidate.step_s),
        times(candidate.step_s / plan.best.step_s),
        *([] if brief else [count(candidate.tokens_per_s / plan.devices), share(candidate.mfu)]),
        gigabytes(candidate.peak_bytes),
        short_chance(candidate.chance),
    )


def alternatives(plan: TrainingPlan, *, brief: bool) -> ReportTable:
    """Each value that the best layout has not, in one dimension."""
    shown = [alternative for alternative in plan.alternatives if not brief or _is_near(alternative, plan)]
    head = (_("instead"), _("result"), _("because"))
    rows = tuple(
        (
            layouts.value_as_text(alternative.dimension, alternative.value),
            say.slower(alternative, plan),
            say.why(alternative, plan),
        )
        for alternative in shown
    )
    title = _("why not another value: the best layout with it")
    empty = _("no other layout was considered") if plan.fits else ""
    return ReportTable(title=title, head=head, rows=rows, notes=(), empty=empty)


def _is_near(alternative: Alternative, plan: TrainingPlan) -> bool:
    """The next values below and above that of the best layout."""
    mine = getattr(plan.best.layout, alternative.dimension)
    same = [other.value for other in plan.alternatives if other.dimension == alternative.dimension]
    between = [value for value in same if min(mine, alternative.value) < value < max(mine, alternative.value)]
    return len(between) < (1 if alternative.dimension in {"zero", "chunks", "micro_batch"} else _NEAR)


def sizes(plans: Sequence[TrainingPlan], refused: Sequence[tuple[int, str]], chosen: TrainingPlan) -> ReportTable:
    speed = say.per_second(chosen), say.per_second_and_gpu(chosen)
    head = (
        _("GPUs"), _("best layout"), _("step"), *speed, "MFU", _("GPU memory"), _("OOM"),
    )  # fmt: skip
    rows = tuple(map(_size_row, plans))
    text = _("{count:,} GPUs: {why}")
    notes = (
        *(text.format(count=devices, why=clipped(why, 200)) for devices, why in refused),
        _("below: the plan for {count:,} GPUs").format(count=chosen.devices),
    )
    return ReportTable(title=_("by number of GPUs"), head=head, rows=rows, notes=notes)


def _size_row(plan: TrainingPlan) -> tuple[str, ...]:
    best = plan.best
    return (
        f"{plan.devices:,}",
        layouts.split(best.layout),
        seconds(best.step_s),
        count(best.tokens_per_s),
        count(best.tokens_per_s / plan.devices),
        share(best.mfu),
        gigabytes(best.peak_bytes),
        short_chance(best.chance),
    )


# --- parts of a whole -------------------------------------------------------------------------------------------------


def step_bars(plan: TrainingPlan) -> StackedBars:
    """The predicted step, part after part."""
    parts = {name: float(getattr(plan.best.time, name)) for name in say.PARTS}
    unit, scale, digits = _time_unit(plan.best.step_s)

    def amount(time_s: float) -> str:
        return f"{time_s / scale:,.{digits}f} {unit}"

    bars = tuple(_bars(parts, say.PARTS, plan.best.step_s, amount))
    title = _("where the predicted step goes, on the slowest stage")
    return StackedBars(title=title, bars=bars, total_name=_("= step"), total=amount(plan.best.step_s))


def memory_bars(plan: TrainingPlan) -> StackedBars:
    """The peak on the fullest device, part after part, drawn against what the device has."""
    parts = {name: float(getattr(plan.best.memory, name)) for name in say.HOLDERS}
    whole = max(plan.device_bytes, plan.best.peak_bytes)
    return StackedBars(
        title=_("peak memory of the step, on the fullest GPU"),
        bars=tuple(_bars(parts, say.HOLDERS, whole, gigabytes, plan.device_bytes)),
        total_name=_("= peak"),
        total=gigabytes(plan.best.peak_bytes),
        total_share=f"{100 * plan.best.peak_bytes / plan.device_bytes:.1f} %",
        of=_("of {size}").format(size=gigabytes(plan.device_bytes)),
        limit=plan.device_bytes / whole,
    )


def _bars(
    parts: Mapping[str, float],
    names: Mapping[str, str],
    whole: float,
    amount: Callable[[float], str],
    hundred: float | None = None,
) -> Iterator[StackedPart]:
    """Drawn against `whole`; shares are of `hundred`, or of the same."""
    before = 0.0
    for name, value in parts.items():
        if value >= _FAINT * whole:
            yield StackedPart(
                code=name.rpartition("_")[0],
                colour=COLOURS[name.rpartition("_")[0]],
                name=_(names[name]),
                amount=amount(value),
                share=f"{100 * value / (hundred or whole):.1f} %",
                start=before / whole,
                end=(before + value) / whole,
            )
        before += value


def _time_unit(longest_s: float) -> tuple[str, float, int]:
    """One unit for all parts, so that they can be compared by eye, and the digits after its point."""
    return ("s", 1.0, 3) if longest_s >= 10 else ("ms", 1e-3, 1)
