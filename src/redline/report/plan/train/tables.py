"""The tables of a plan of a training job, as cells: traffic, the best layouts, what is worse about others."""

from collections.abc import Sequence

from redline.plan.train.search.search import Alternative
from redline.plan.train.search.training_plan import Candidate, TrainingPlan
from redline.report.document import ReportTable
from redline.report.language import _
from redline.report.plan import layouts
from redline.report.plan.amounts import count, gigabytes, seconds, share, short_chance, times
from redline.report.plan.train import training_messages as say
from redline.report.plan.train import units

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
        *([] if brief else [units.per_second_and_gpu(plan), "MFU"]), _("GPU memory"), _("OOM"),
    )  # fmt: skip
    rows = tuple(_ranked_row(plan, candidate, names, has_pipeline, brief) for candidate in plan.ranked)
    notes = [
        _("micro: samples per micro-batch; OOM: probability of running out of memory")
        if units.counts_samples(plan)
        else _("micro: sequences per micro-batch; OOM: probability of running out of memory")
    ]
    if any(candidate.layout.zero == 3 and candidate.layout.shard for candidate in plan.ranked):
        notes.append(_("ZeRO 3 / 8: split inside groups of 8 (HSDP)"))
    return ReportTable(title=_("the best layouts"), head=head, rows=rows, notes=tuple(notes), empty="")


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
