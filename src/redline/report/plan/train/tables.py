"""The tables and bars of a plan of a training job: its step, traffic, the best layouts, what is worse about others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter

from redline.plan.train.search.plan import TrainingPlan
from redline.plan.train.search.search import Alternative
from redline.report.document import ReportColumn, ReportTable, StackedBars, StackedPart, table_of
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
    columns = (
        ReportColumn("kind", _("communication"), lambda kind: _(say.OVERLAPS[kind])),
        ReportColumn("compute_s", _("compute"), seconds),
        ReportColumn("traffic_s", _("comm. time"), seconds),
        ReportColumn("ratio", _("ratio"), times),
        ReportColumn("exposed_s", _("result"), read=say.overlap),
    )
    text = _(
        "All figures are of one step, on the slowest stage. A ratio of 1 or more is needed to hide all of it, but "
        "software hides less: the data-parallel overlap fitted to measurements of this stack is {share}."
    )
    return table_of(
        columns,
        plan.overlaps,
        title=_("communication, and the compute that can hide it"),
        notes=[text.format(share=share(float(plan.rates.overlap)))],
        empty=_("no communication: a single GPU"),
    )


def ranked(plan: TrainingPlan, *, brief: bool) -> ReportTable:
    """The best, and those after it. `brief` is narrow enough for a terminal."""
    every = [candidate.layout for candidate in plan.ranked]
    names = [name for name in layouts.DIMENSIONS if any(getattr(layout, name) > 1 for layout in every)]
    schedule = ReportColumn("layout", _("schedule"), layouts.short_pipeline)
    wide = (
        ReportColumn("tokens_per_s", say.per_second_and_gpu(plan), lambda speed: count(speed / plan.devices)),
        ReportColumn("mfu", "MFU", share),
    )
    columns = (
        *(ReportColumn(name, name, lambda size: str(int(size)), attrgetter(f"layout.{name}")) for name in names),
        ReportColumn("layout", "ZeRO", layouts.short_sharding),
        *([schedule] if any(layout.pp > 1 for layout in every) else []),
        ReportColumn("layout", _("micro"), lambda layout: str(int(layout.micro_batch))),
        ReportColumn("layout", _("recompute"), layouts.recompute),
        ReportColumn("step_s", _("step"), seconds),
        ReportColumn("step_s", _("slower"), lambda step_s: times(step_s / plan.best.step_s)),
        *(() if brief else wide),
        ReportColumn("peak_bytes", _("GPU memory"), gigabytes),
        ReportColumn("chance", _("OOM"), short_chance),
    )
    notes = [_("micro: size of a micro-batch; OOM: probability of running out of memory")]
    if any(layout.zero == 3 and layout.shard for layout in every):
        notes.append(_("ZeRO 3 / 8: split inside groups of 8 (HSDP)"))
    return table_of(columns, plan.ranked, title=_("the best layouts"), notes=notes)


def alternatives(plan: TrainingPlan, *, brief: bool) -> ReportTable:
    """Each value that the best layout has not, in one dimension."""
    columns = (
        ReportColumn("value", _("instead"), read=lambda other: layouts.value_as_text(other.dimension, other.value)),
        ReportColumn("slower", _("result"), read=lambda other: say.slower(other, plan)),
        ReportColumn("cause", _("because"), read=lambda other: say.why(other, plan)),
    )
    return table_of(
        columns,
        [alternative for alternative in plan.alternatives if not brief or _is_near(alternative, plan)],
        title=_("why not another value: the best layout with it"),
        empty=_("no other layout was considered") if plan.fits else "",
    )


def _is_near(alternative: Alternative, plan: TrainingPlan) -> bool:
    """The next values below and above that of the best layout."""
    mine = getattr(plan.best.layout, alternative.dimension)
    same = [other.value for other in plan.alternatives if other.dimension == alternative.dimension]
    between = [value for value in same if min(mine, alternative.value) < value < max(mine, alternative.value)]
    return len(between) < (1 if alternative.dimension in {"zero", "chunks", "micro_batch"} else _NEAR)


def sizes(plans: Sequence[TrainingPlan], refused: Sequence[tuple[int, str]], chosen: TrainingPlan) -> ReportTable:
    columns = (
        ReportColumn("devices", _("GPUs"), "{:,}".format),
        ReportColumn("layout", _("best layout"), layouts.split, attrgetter("best.layout")),
        ReportColumn("step_s", _("step"), seconds, attrgetter("best.step_s")),
        ReportColumn("tokens_per_s", say.per_second(chosen), count, attrgetter("best.tokens_per_s")),
        ReportColumn(
            "per_gpu", say.per_second_and_gpu(chosen), count, lambda plan: plan.best.tokens_per_s / plan.devices
        ),
        ReportColumn("mfu", "MFU", share, attrgetter("best.mfu")),
        ReportColumn("peak_bytes", _("GPU memory"), gigabytes, attrgetter("best.peak_bytes")),
        ReportColumn("chance", _("OOM"), short_chance, attrgetter("best.chance")),
    )
    text = _("{count:,} GPUs: {why}")
    notes = (
        *(text.format(count=devices, why=clipped(why, 200)) for devices, why in refused),
        _("below: the plan for {count:,} GPUs").format(count=chosen.devices),
    )
    return table_of(columns, plans, title=_("by number of GPUs"), notes=notes)


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
