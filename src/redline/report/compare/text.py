"""The result of `compare` as text for a terminal: the verdict, and the difference table by table."""

from collections.abc import Iterator

from redline.report.compare.compare_result import CompareResult
from redline.report.compare.sentences import remarks, spread_sentences, verdict_sentence
from redline.report.compare.tables import tables_of
from redline.report.diagnose.screen import screen_of
from redline.report.display import Style, styled
from redline.report.document import ReportTable
from redline.report.language import _, sentences
from redline.report.terminal import as_text, labelled, table
from redline.trials.recordings import Judgement

_LABEL_WIDTH = 10
_STYLES = {Judgement.FASTER: Style.GOOD, Judgement.SLOWER: Style.LIMIT}


def render(result: CompareResult, *, verbose: bool = False) -> str:
    return as_text(
        [list(_head(result)), *(list(_table(shown)) for shown in tables_of(result.difference, verbose=verbose))]
    )


def _head(result: CompareResult) -> Iterator[str]:
    verdict = verdict_sentence(result.difference)
    style = _STYLES.get(result.difference.judgement)
    headed = styled(verdict, style) if style else verdict
    said = sentences([result.about, headed, *spread_sentences(result)])
    labels = (_("before"), _("after"))
    for label, name, found in zip(labels, result.names, (result.before, result.after), strict=True):
        yield from labelled(label, f"{name}: {screen_of(found).headline}", _LABEL_WIDTH)
    yield from labelled(_("verdict"), said, _LABEL_WIDTH)
    for remark in remarks(result):
        yield from labelled("", remark, _LABEL_WIDTH)


def _table(shown: ReportTable) -> Iterator[str]:
    yield shown.title
    yield from (f"  {line}" for line in table(shown.head, shown.rows))
    yield from (f"  {note}" for note in shown.notes)
