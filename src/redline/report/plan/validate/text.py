"""The accuracy of plans as text for a terminal."""

from redline.plan.accuracy import RENEWING
from redline.plan.validation import HELD_OUT, Validation
from redline.report.display import Style, columns, styled
from redline.report.language import _
from redline.report.plan.text_blocks import table_block
from redline.report.plan.validate import tables
from redline.report.terminal import as_text, wrapped


def headline(validation: Validation) -> str:
    text = _(
        "Plans against published measurements: {steps:,} step times, {peaks:,} memory peaks, {served:,} serving figures"
    )
    served = sum(accuracy.rows for accuracy in validation.serving if accuracy.group == HELD_OUT)
    return text.format(steps=validation.step.everything.runs, peaks=validation.memory.peaks[-1].rows, served=served)


def split(validation: Validation) -> str:
    return _(
        "First, whole groups of runs are left out of the fit: a plan quotes the line of its own situation. The other "
        "tables of step time leave out runs with odd ids alone: {share} of these have a sibling in the fit, the same "
        "model, machine and software stack in another layout, so they are for layouts between measured ones. Errors "
        "are predicted / measured - 1; median and p90 are of absolute errors. In a checkout, `{command}` makes these "
        "tables anew."
    ).format(share=tables.share(validation.step.siblings), command=RENEWING)


def render(validation: Validation) -> str:
    # Choices and groups one by one are for the page.
    every = tables.every(validation, brief=True)
    shown = [table for name, table in every.items() if name not in ("each_choice", "serving_groups")]
    blocks = [
        [
            *wrapped(styled(headline(validation), Style.HEADING), columns(), rest="  "),
            *wrapped(split(validation), columns()),
        ],
        *map(table_block, shown),
    ]
    return as_text(blocks)
