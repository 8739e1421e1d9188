"""The accuracy of plans as text for a terminal."""

from redline.planner.validation.validate import Validation
from redline.report.display import Style, columns, styled
from redline.report.language import _
from redline.report.plan.text_blocks import table_block
from redline.report.plan.validate import tables
from redline.report.terminal import as_text, wrapped


def headline(found: Validation) -> str:
    text = _(
        "Plans against published measurements: {steps:,} step times, {peaks:,} memory peaks, {served:,} serving figures"
    )
    served = sum(one.rows for one in found.serving if one.group == "held out")
    return text.format(steps=found.step.everything.runs, peaks=found.memory.peaks[-1].rows, served=served)


def split(found: Validation) -> str:
    return _(
        "Held out: runs with odd ids score, runs with even ids fit. {share} of the scored steps have a sibling "
        "among the fitted ones: the same model, machine and software stack in another layout. So these errors are"
        " for layouts between measured ones; on models, machines and stacks that were never measured they are "
        "larger. Errors are predicted / measured - 1; median and p90 are of absolute errors."
    ).format(share=tables.share(found.step.siblings))


def render(found: Validation) -> str:
    # Choices one by one are for the page.
    shown = [one for name, one in tables.every(found, brief=True).items() if name != "each_choice"]
    blocks = [
        [*wrapped(styled(headline(found), Style.HEADING), columns(), rest="  "), *wrapped(split(found), columns())],
        *map(table_block, shown),
    ]
    return as_text(blocks)
