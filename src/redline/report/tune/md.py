"""A search for better settings as Markdown: a comment on a pull request."""

import html
from collections.abc import Iterator

from redline.report.document import ReportTable
from redline.report.language import _, sentences
from redline.report.markdown import escaped, markdown_table
from redline.report.terminal import as_text
from redline.report.tune.ladder import LadderRows, ladder_rows
from redline.report.tune.next_steps import PastedLever, next_steps, pasted_levers, pasted_sentence
from redline.report.tune.rejection_messages import untried_sentences
from redline.report.tune.sentences import (
    doubts,
    effort_sentence,
    headline,
    limiting_sentences,
    memory_sentence,
    numbers_extent,
)
from redline.report.tune.tables import ladder_table, rejected_table
from redline.tuning.tune_result import TuneResult


def render(result: TuneResult) -> str:
    rows, label = ladder_rows(result), _("not tried")
    return as_text(
        [
            [f"## {escaped(headline(result, rows))}"],
            [escaped(sentences(_beside(result, rows)))],
            [f"- {label}: {escaped(text)}" for label, text in limiting_sentences(result)],
            markdown_table(ladder_table(result, rows)) if rows.rungs else [],
            *_rejected(rejected_table(result)),
            [f"- {label}: {escaped(sentence)}" for sentence in untried_sentences(result.ladder.rejected)],
            [f"- {escaped(step.why)}: {_code(step.command)}" for step in next_steps(result)],
            *(block for lever in pasted_levers(result) for block in _pasted(lever)),
        ]
    )


def _beside(result: TuneResult, rows: LadderRows) -> list[str]:
    return [
        memory_sentence(result, rows),
        numbers_extent(result),
        effort_sentence(result),
        *doubts(result, rows),
    ]


def _pasted(lever: PastedLever) -> Iterator[list[str]]:
    """The lines of a page are ours, and Markdown already. In a line of HTML, Markdown escapes nothing."""
    if lever.is_line:
        yield [f"- {escaped(pasted_sentence(lever))}: {_code(lever.lines)}"]
        return
    yield [f"<details><summary>{html.escape(pasted_sentence(lever))}</summary>"]
    yield lever.lines.split("\n")
    yield ["</details>"]


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def _rejected(shown: ReportTable) -> Iterator[list[str]]:
    """Folded: a comment is read from its first lines."""
    if not shown.rows:
        return
    title = _("{title} ({count})").format(title=shown.title, count=len(shown.rows))
    yield [f"<details><summary>{html.escape(title)}</summary>"]
    yield markdown_table(shown)
    yield ["</details>"]
