"""The result of `compare` as Markdown, as a comment on a pull request."""

from collections.abc import Iterator

from redline.report.compare.compare_result import CompareResult
from redline.report.compare.sentences import remarks, spread_sentences, verdict_sentence
from redline.report.compare.tables import tables_of
from redline.report.document import ReportTable
from redline.report.language import sentences
from redline.report.markdown import escaped, markdown_table
from redline.report.terminal import as_text


def render(result: CompareResult, *, verbose: bool = False) -> str:
    shown = list(tables_of(result.difference, verbose=verbose))
    said = [*spread_sentences(result), *remarks(result)]
    return as_text(
        [
            [f"## {escaped(sentences([result.about, verdict_sentence(result.difference)]))}"],
            [escaped(sentences(said))],
            *(block for number, part in enumerate(shown) for block in _table(part, folded=number > 0)),
        ]
    )


def _table(shown: ReportTable, *, folded: bool) -> Iterator[list[str]]:
    """All but the first are folded: a comment is read from its first lines."""
    if not folded:
        yield markdown_table(shown)
        return
    yield [f"<details><summary>{escaped(shown.title)}</summary>"]
    yield markdown_table(shown)
    yield [*map(escaped, shown.notes), "</details>"]
