"""What was read, from which files, and what of it was dropped."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from redline.job.read_failures import Failure
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.digest import Digest
from redline.report.document import ReportTable
from redline.report.language import _
from redline.report.text_parts import clipped
from redline.timeline.problems import Reason
from redline.units import format_count, format_ns

_NAME_LIMIT = 80
_MOST_FAILURES = 20


def sources_table(diagnosis: Diagnosis) -> ReportTable:
    return ReportTable(
        title=_("files"),
        empty="",
        head=(_("rank"), _("file"), _("host"), _("steps"), _("window"), _("dropped"), _("recorded"), _("versions")),
        rows=tuple(map(_row, diagnosis.ranks)),
        notes=(_("dropped: events that could not be used; `redline inspect` lists each reason with an example"),),
    )


def _row(rank: Digest) -> tuple[str, ...]:
    origin = rank.origin
    return (
        str(origin.rank),
        clipped(PurePath(origin.source).name, _NAME_LIMIT),
        clipped(origin.host, 40) or "-",
        format_count(len(rank.ledger.start_ns)),
        format_ns(rank.ledger.window_ns),
        format_count(sum(origin.dropped.values())),
        clipped(", ".join(origin.recorded), _NAME_LIMIT) or "-",
        clipped(", ".join(f"{name} {version}" for name, version in origin.versions.items()), _NAME_LIMIT) or "-",
    )


def dropped_text(diagnosis: Diagnosis) -> list[str]:
    """Why events were dropped, over all ranks, the commonest reason first."""
    total: Counter[str] = Counter()
    for rank in diagnosis.ranks:
        total.update(rank.origin.dropped)
    said = {reason.code: reason.sentence for reason in Reason}
    return [f"{format_count(count)}: {said.get(code, clipped(code))}" for code, count in total.most_common()]


def failure_text(failures: Sequence[Failure]) -> list[str]:
    """Files that could not be read."""
    shown = [clipped(failure.message.replace("\n", " "), 300) for failure in failures[:_MOST_FAILURES]]
    more = len(failures) - len(shown)
    return [*shown, _("{count:,} more files").format(count=more)] if more > 0 else shown
