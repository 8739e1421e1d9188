"""The plan of a training job as text for a terminal: the answer first, then what it is made of and how sure it is."""

from collections.abc import Iterator

from redline.plan.job.job_cost import JobCost
from redline.plan.train.search.training_plan import TrainingPlan
from redline.report.display import PLAIN_COLUMNS, Style, columns, styled
from redline.report.document import StackedBars
from redline.report.language import _, sentences
from redline.report.plan.text_blocks import list_block, table_block
from redline.report.plan.train.screen import TrainScreen, screen_of
from redline.report.terminal import as_text, bar, headline, labelled, left, right, width_of

_LABEL_WIDTH = 12
_BAR_WIDTH = 44  # of plain text


def render(plan: TrainingPlan, job: JobCost | None = None, *, unicode: bool = True) -> str:
    """`job` is what all steps together take. Without `unicode` the bars are of plain letters."""
    screen = screen_of(plan, job, brief=True)
    blocks = [
        [*headline(screen.headline), *_facts(screen)],
        [] if screen.measured is None else table_block(screen.measured),
        list(_bars(screen.step, unicode=unicode)),
        table_block(screen.overlaps),
        list(_bars(screen.memory, unicode=unicode)),
        table_block(screen.ranked),
        table_block(screen.alternatives),
        list_block(_("what a better machine would change"), screen.changes),
        list(_job(screen)),
        list_block(_("how far to trust this"), screen.trust),
    ]
    return as_text(blocks)


def _facts(screen: TrainScreen) -> Iterator[str]:
    first, style = (_("best"), Style.GOOD) if screen.fits else (_("verdict"), Style.LIMIT)
    yield from labelled(first, sentences([styled(screen.verdict, style), *screen.advice]), _LABEL_WIDTH)
    for label, text in screen.facts:
        yield from labelled(label, text, _LABEL_WIDTH)


def _bars(bars: StackedBars, *, unicode: bool) -> Iterator[str]:
    yield bars.title
    width = _BAR_WIDTH + columns() - PLAIN_COLUMNS
    names = max(width_of(stacked_part.name) for stacked_part in bars.bars)
    amounts = max(width_of(amount) for amount in (bars.total, *(stacked_part.amount for stacked_part in bars.bars)))
    for stacked_part in bars.bars:
        drawn = styled(bar(stacked_part.start, stacked_part.end, unicode=unicode, width=width), Style.LABEL)
        amount = right(stacked_part.amount, amounts)
        yield f"  {left(stacked_part.name, names)}  {amount}  {stacked_part.share:>7}  {drawn}".rstrip()
    total = f"  {left(bars.total_name, names)}  {right(bars.total, amounts)}  {bars.total_share:>7}  {bars.of}"
    yield total.rstrip()


def _job(screen: TrainScreen) -> Iterator[str]:
    if screen.job is None:
        return
    yield screen.job.title
    width = max(width_of(label) for label, _text in screen.job_facts) + 2
    for label, text in screen.job_facts:
        yield from labelled(label, text, width, indent="  ")
    yield from table_block(screen.job)[1:]
