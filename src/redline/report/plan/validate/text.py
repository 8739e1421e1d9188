"""The accuracy of plans as text for a terminal."""

from redline.planner.validation.validate import Validation
from redline.report.language import _
from redline.report.layout import as_text, wrapped
from redline.report.plan.blocks import WIDTH, table_block
from redline.report.plan.validate import tables


def headline(found: Validation) -> str:
    text = _("Plans against published measurements: {steps:,} steps, {peaks:,} peaks of memory, {served:,} of serving")
    served = sum(one.rows for one in found.serving if one.group == "held out")
    return text.format(steps=found.step.everything.runs, peaks=found.memory.peaks[-1].rows, served=served)


def split() -> str:
    return _(
        "Runs with odd ids, which no constant was fitted to; those with even ids fit. Constants belong to a software "
        "stack and a GPU, never to a run. Errors are predicted over measured, less 1; the median "
        "is of errors without their sign."
    )


def render(found: Validation) -> str:
    # Choices one by one are for the page.
    shown = [one for name, one in tables.every(found, brief=True).items() if name != "each_choice"]
    blocks = [[*wrapped(headline(found), WIDTH), *wrapped(split(), WIDTH)], *map(table_block, shown)]
    return as_text(blocks)
