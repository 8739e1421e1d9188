"""A plan inside a notebook: static markup with its styles inline, no script; and the one line of its repr.

Letters keep the notebook's own colour, so it can be read on light and dark alike.
"""

from collections.abc import Iterable, Iterator
from html import escape

from redline.plan.job.job_cost import JobCost
from redline.plan.serve.serving_plan import ServingPlan
from redline.plan.train.search.training_plan import TrainingPlan
from redline.plan.validation import Validation
from redline.report.document import ReportTable, StackedBars
from redline.report.language import _, sentences
from redline.report.plan.amounts import gigabytes, seconds
from redline.report.plan.layouts import as_text
from redline.report.plan.serve import serving_messages as say_serve
from redline.report.plan.serve import tables as serve_tables
from redline.report.plan.train.screen import screen_of
from redline.report.plan.train.training_messages import headline as train_headline
from redline.report.plan.validate import tables as validate_tables
from redline.report.plan.validate.text import headline as validate_headline
from redline.report.plan.validate.text import split
from redline.report.terminal import visible
from redline.report.text_parts import clipped, percent

_COLOURS = {
    **dict.fromkeys(("compute", "recompute", "head", "activations"), "#4287f5"),
    **dict.fromkeys(("tensor", "context", "expert", "pipeline", "gather", "reduce", "gathers"), "#9c4dcc"),
    **dict.fromkeys(("weights", "gradients", "optimizer"), "#2f9e44"),
    **dict.fromkeys(("communicators", "allocator", "temporaries"), "#868e96"),
    **dict.fromkeys(("host", "bubble", "offload"), "#e8590c"),
}
_LETTERS = 400  # of one piece of text
_CELL = "padding:1px 8px;border:0;text-align:{align};vertical-align:top;background:none;color:inherit"
_TABLE = "border-collapse:collapse;border:0;font-size:inherit;margin:4px 0;color:inherit"


# --- the kinds of plans -----------------------------------------------------------------------------------------------


def train(plan: TrainingPlan, job: JobCost | None) -> str:
    screen = screen_of(plan, job, brief=True)
    first = _("best") if screen.fits else _("verdict")
    said = [(first, sentences([screen.verdict, *screen.advice])), *screen.facts]
    blocks = [_facts(said), _bars(screen.step), _bars(screen.memory), _table(screen.ranked)]
    if screen.job is not None:
        blocks += [_titled(screen.job.title), _facts(screen.job_facts)]
    return _whole(screen.headline, [*blocks, _folded(screen.trust)])


def serve(plan: ServingPlan) -> str:
    first = _("best") if plan.best is not None else _("verdict")
    facts = [(first, say_serve.verdict(plan)), *say_serve.facts(plan)]
    blocks = [_facts(facts), _table(serve_tables.passes(plan))]
    blocks += [_table(serve_tables.frontier(plan, brief=True))] if plan.points else []
    return _whole(say_serve.headline(plan), [*blocks, _folded(tuple(say_serve.trust(plan)))])


def validation(validated: Validation) -> str:
    shown = (
        validate_tables.steps(validated),
        validate_tables.choices(validated),
        validate_tables.memory(validated),
        validate_tables.verdicts(validated),
        validate_tables.serving(validated, brief=True),
    )
    return _whole(validate_headline(validated), [f"<div>{_safe(split(validated))}</div>", *map(_table, shown)])


# --- pieces of markup -------------------------------------------------------------------------------------------------


def _whole(headline: str, blocks: Iterable[str]) -> str:
    head = f"<div style='font-weight:bold'>{_safe(headline)}</div>"
    return f"<div style='font-size:13px;line-height:1.5;max-width:64em;color:inherit'>{head}{''.join(blocks)}</div>"


def _safe(text: str) -> str:
    """Names come from strangers' files: text and nothing else."""
    return escape(visible(clipped(text, _LETTERS)), quote=True)


def _titled(title: str) -> str:
    return f"<div style='margin-top:8px'>{_safe(title)}</div>"


def _row(cells: Iterable[tuple[str, str]], more: str = "", style: str = "") -> str:
    tds = "".join(f"<td style='{_CELL.format(align=align)}'>{_safe(text)}</td>" for text, align in cells)
    return f"<tr style='background:none;{style}'>{tds}{more}</tr>"


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = (_row([(label, "left"), (text, "left")]) for label, text in facts)
    return f"<table style='{_TABLE}'>{''.join(rows)}</table>"


def _table(shown: ReportTable) -> str:
    if not shown.rows:
        return ""
    rows = [_row(_aligned(shown.head), style="font-weight:bold"), *(_row(_aligned(row)) for row in shown.rows)]
    notes = "".join(f"<div style='opacity:.75'>{_safe(note)}</div>" for note in shown.notes)
    return f"{_titled(shown.title)}<table style='{_TABLE}'>{''.join(rows)}</table>{notes}"


def _aligned(cells: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((cell, "right" if at else "left") for at, cell in enumerate(cells))


def _bars(bars: StackedBars) -> str:
    rows = []
    for stacked_part in bars.bars:
        start, width = 100 * stacked_part.start, max(100 * (stacked_part.end - stacked_part.start), 0.3)
        bar = f"margin-left:{start:.2f}%;width:{width:.2f}%;height:12px;background:{_COLOURS[stacked_part.code]}"
        drawn = f"<td style='width:60%;border:0;background:none'><div style='{bar}'></div></td>"
        rows.append(
            _row([(stacked_part.name, "left"), (stacked_part.amount, "right"), (stacked_part.share, "right")], drawn)
        )
    total = [(bars.total_name, "left"), (bars.total, "right"), (bars.total_share, "right"), (bars.of, "left")]
    rows.append(_row(total, style="font-weight:bold"))
    return f"{_titled(bars.title)}<table style='{_TABLE};width:100%'>{''.join(rows)}</table>"


def _folded(lines: tuple[str, ...]) -> str:
    items = "".join(f"<li>{_safe(line)}</li>" for line in lines)
    title = _safe(_("how far to trust this"))
    return (
        f"<details style='margin-top:8px'><summary>{title}</summary>"
        f"<ul style='margin:4px 0;padding-left:24px'>{items}</ul></details>"
    )


# --- one line ---------------------------------------------------------------------------------------------------------


def train_line(plan: TrainingPlan) -> str:
    """ "<plan of llama-3.1-8b on 64 H100 ...: dp 64, ZeRO-2, ...; step 7.294 s, 73.4 GB, MFU 46.8 %>"."""
    best = plan.best
    layout = as_text(best.layout, best.micro_batches)
    fits = "" if plan.fits else "nothing fits; smallest: "
    return visible(
        f"<plan of {train_headline(plan)}: {fits}{layout}; step {seconds(best.step_s)}, {gigabytes(best.peak_bytes)}, "
        f"MFU {percent(best.mfu)}>"
    )


def serve_line(plan: ServingPlan) -> str:
    return visible(f"<plan of {say_serve.headline(plan)}: {say_serve.verdict(plan)}>")


def validation_line(validated: Validation) -> str:
    step, peak = validated.step.everything, validated.memory.peaks[-1]
    return (
        f"<plans against measurements: step time {percent(step.median)} in the median of {step.runs:,} runs, "
        f"memory {percent(peak.median)} of {peak.rows:,}>"
    )
