"""The accuracy of plans as a document and as JSON; docs/reference/plan.md describes every field."""

from typing import Any

from redline.plan.accuracy import RENEWING
from redline.plan.validation import HELD_OUT, Validation
from redline.report.data import enveloped
from redline.report.document import Document, Heading, Paragraph
from redline.report.language import _
from redline.report.plan.amounts import figures
from redline.report.plan.validate import tables

_OF_NOTEBOOKS = ("steps", "choices", "memory", "verdicts", "serving")


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


def document_of(validation: Validation, *, brief: bool = False) -> Document:
    """Choices and groups one by one are for the page; `brief` is for a notebook."""
    every = tables.every(validation, brief=True)
    shown = _OF_NOTEBOOKS if brief else [name for name in every if name not in ("each_choice", "serving_groups")]
    first = (Heading(text=headline(validation)), Paragraph(text=split(validation)))
    return Document(blocks=(first, *(every[name] for name in shown)))


def record_of(validation: Validation) -> dict[str, Any]:
    step, memory = validation.step, validation.memory
    record = {
        "left_out": figures(validation.left_out, "every stacks peers"),
        "step": {
            **figures(step, "dense megatron stacks kinds everything choice expressible siblings"),
            "reasons": [{"reason": reason, "runs": count} for reason, count in step.reasons],
        },
        "memory": {
            **figures(memory, "peaks verdicts"),
            "left_out": [{"reason": reason, "runs": count} for reason, count in memory.left_out.items()],
        },
        **figures(validation, "serving serving_groups first_token_repeats"),
    }
    return enveloped("plan-validation", 3, "redline plan validate", record)
