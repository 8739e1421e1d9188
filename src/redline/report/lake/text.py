"""What `redline lake` says on a terminal."""

from redline.report.lake.lake_messages import size_line
from redline.report.lake.lake_results import LakeAddResult, LakeAskResult, LakePruneResult
from redline.report.lake.tables import answer_table
from redline.report.terminal import as_text, fitted
from redline.report.text_parts import clipped, plural
from redline.report.text_table import table


def render_answer(result: LakeAskResult) -> str:
    shown = answer_table(result)
    head = [*fitted(f"{shown.title}: {size_line(result)}")]
    rows = table(shown.head, shown.rows) if shown.rows else [shown.empty]
    return as_text([head, rows, [line for note in shown.notes for line in fitted(note)]])


def render_added(result: LakeAddResult) -> str:
    lines = [
        f"added to {clipped(result.lake, 500)}: {plural(result.digests, 'digest')} of the job {clipped(result.job)}, "
        f"{plural(result.windows, 'window')}"
    ]
    lines += ["unread: " + clipped(failure.message.replace("\n", " "), limit=300) for failure in result.failures]
    return as_text([lines])


def render_pruned(result: LakePruneResult) -> str:
    merged = f"; merged {plural(result.merged, 'file')} of the others" if result.merged else ""
    return as_text(
        [
            [
                f"removed from {clipped(result.lake, 500)}: {plural(result.digests, 'digest')} of "
                f"{plural(result.days, 'day')} before {result.first_kept}{merged}"
            ]
        ]
    )
