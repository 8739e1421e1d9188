"""A plan of serving as text for a terminal."""

from redline.plan.serve.serving_plan import ServingPlan
from redline.report.display import Style, styled
from redline.report.language import _
from redline.report.plan.serve import serving_messages as say
from redline.report.plan.serve import tables
from redline.report.plan.text_blocks import list_block, table_block
from redline.report.terminal import as_text, headline, labelled

_LABEL_WIDTH = 13


def render(plan: ServingPlan) -> str:
    lines = headline(say.headline(plan))
    first, style = (_("best"), Style.GOOD) if plan.best is not None else (_("verdict"), Style.LIMIT)
    for label, text in ((first, styled(say.verdict(plan), style)), *say.facts(plan)):
        lines += labelled(label, text, _LABEL_WIDTH)
    blocks = [
        lines,
        table_block(tables.passes(plan)),
        table_block(tables.frontier(plan, brief=True)) if plan.points else [],
        list_block(_("what does not fit"), list(say.refused(plan))),
        list_block(_("how far to trust this"), list(say.trust(plan))),
    ]
    return as_text(blocks)
