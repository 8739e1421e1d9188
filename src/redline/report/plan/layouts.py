"""A layout in words: in one line, and as cells of a table."""

from collections.abc import Iterator

from redline.plan.train.layout import Layout
from redline.plan.train.training_choices import Execution, PipelineSchedule, Recompute
from redline.report.language import _, listed, marked, ngettext

DIMENSIONS = ("dp", "tp", "pp", "cp", "ep")
SCHEDULES = {
    PipelineSchedule.GPIPE: "GPipe",
    PipelineSchedule.ONE_F_ONE_B: "1F1B",
    PipelineSchedule.ZERO_BUBBLE: "zero-bubble",
    PipelineSchedule.DUALPIPE: "DualPipe",
}
RECOMPUTES = {
    Recompute.NONE: marked("none"),
    Recompute.SELECTIVE: marked("selective"),
    Recompute.FULL: marked("full"),
}


def as_text(layout: Layout, micro_batches: int) -> str:
    """Everything that makes this layout another one than the plainest."""
    return listed([split(layout), *_further(layout, micro_batches)])


def in_brief(layout: Layout) -> str:
    """What tells it from the others of a search, short enough to stand beside a point."""
    parts = [split(layout)]
    if layout.zero:
        parts.append(sharding(layout))
    if layout.micro_batch > 1:
        parts.append(value_as_text("micro_batch", int(layout.micro_batch)))
    if layout.recompute:
        parts.append(value_as_text("recompute", int(layout.recompute)))
    return listed(parts)


def split(layout: Layout) -> str:
    """dp 8 x tp 4 x pp 2: the ways in which the devices share the work."""
    parts = [f"{name} {int(getattr(layout, name))}" for name in DIMENSIONS[:4] if getattr(layout, name) > 1]
    return " x ".join(parts) or _("one replica on one GPU")


def _further(layout: Layout, micro_batches: int) -> Iterator[str]:
    if layout.ep > 1:
        yield f"ep {int(layout.ep)}"
    if layout.zero:
        yield sharding(layout)
    if layout.pp > 1:
        yield pipeline(layout)
    yield ngettext(
        "{count:,} micro-batch of {size}", "{count:,} micro-batches of {size}", micro_batches
    ).format(count=micro_batches, size=int(layout.micro_batch))  # fmt: skip
    if layout.recompute:
        yield value_as_text("recompute", int(layout.recompute))
    if layout.sequence_parallel:
        yield _("sequence parallel")
    if layout.offload:
        yield _("{share:.0f} % of the optimizer in host memory").format(share=100 * layout.offload)
    if not layout.flash:
        yield _("attention not fused")
    if layout.execution:
        yield _("compiled") if layout.execution == Execution.COMPILED else _("CUDA graphs")
    if layout.imbalance > 1:
        yield _("experts uneven by {factor:.2f}").format(factor=layout.imbalance)
    if layout.lora:
        yield _("LoRA of rank {rank}").format(rank=int(layout.lora))


def sharding(layout: Layout) -> str:
    """ZeRO-1, FSDP, HSDP."""
    if layout.zero == 3 and layout.shard:
        return _("HSDP in groups of {size}").format(size=int(layout.shard))
    return "ZeRO-3 (FSDP)" if layout.zero == 3 else f"ZeRO-{int(layout.zero)}"


def pipeline(layout: Layout) -> str:
    name = SCHEDULES[PipelineSchedule(int(layout.schedule))]
    if layout.chunks > 1:
        return _("{schedule} with {chunks} chunks per stage").format(schedule=name, chunks=int(layout.chunks))
    return name


def recompute(layout: Layout) -> str:
    return _(RECOMPUTES[Recompute(int(layout.recompute))])


def short_sharding(layout: Layout) -> str:
    """For a cell."""
    if layout.zero == 3 and layout.shard:
        return f"3 / {int(layout.shard)}"
    return f"{int(layout.zero)}"


def short_pipeline(layout: Layout) -> str:
    """For a cell; nothing where there is no pipeline."""
    if layout.pp == 1:
        return "-"
    name = SCHEDULES[PipelineSchedule(int(layout.schedule))]
    return f"{name} / {int(layout.chunks)}" if layout.chunks > 1 else name


def value_as_text(dimension: str, value: int) -> str:
    """One choice of a layout: tp 16, ZeRO-3, full recomputation."""
    if dimension == "zero":
        return f"ZeRO-{value}" if value else _("no ZeRO")
    if dimension == "recompute":
        return _("recomputation: {policy}").format(policy=_(RECOMPUTES[Recompute(value)]))
    if dimension == "schedule":
        return SCHEDULES[PipelineSchedule(value)]
    if dimension == "micro_batch":
        return _("micro-batch {size}").format(size=value)
    if dimension == "chunks":
        return ngettext("{count} chunk per stage", "{count} chunks per stage", value).format(count=value)
    return f"{dimension} {value}"
