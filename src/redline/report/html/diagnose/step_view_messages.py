"""What is said of the drawn step: which one it is, what the host did in its gaps, what of it is not drawn."""

from dataclasses import dataclass

from redline.ledger.rank.host_activity import HostActivity
from redline.ledger.rank.step_view import Gap, StepView
from redline.report.diagnose.loss_messages import NAME_LIMIT, doing, site
from redline.report.diagnose.tables import unwrapped
from redline.report.html.diagnose import account_names
from redline.report.language import _, listed, ngettext
from redline.report.text_parts import clipped, percent
from redline.units import format_ns


@dataclass(frozen=True, kw_only=True)
class StepViewTexts:
    """The step and its longest gaps."""

    rank: int
    number: int
    label: str
    length: str
    pixel: str
    gaps: tuple[str, ...]
    gaps_share: str  # of the idle time of the step; "" where it was never idle
    left_out: str


def step_view_texts(view: StepView) -> StepViewTexts:
    gaps_ns = sum(gap.end_ns - gap.start_ns for gap in view.gaps)
    return StepViewTexts(
        rank=view.rank,
        number=view.number,
        label=clipped(view.label, NAME_LIMIT),
        length=format_ns(view.length_ns),
        pixel=format_ns(view.pixel_ns),
        gaps=tuple(map(gap_sentence, view.gaps)),
        gaps_share=percent(gaps_ns / view.idle_ns) if view.idle_ns else "",
        left_out=left_out(view),
    )


def gap_sentence(gap: Gap) -> str:
    """What the device waited for, and what came after."""
    known = {"time": format_ns(gap.end_ns - gap.start_ns), "account": account_names.name(gap.account)}
    if gap.doing is None:
        text = _("{time} {account}").format(**known)
    else:
        text = _("{time} {account}: {doing}").format(doing=_doing(gap.doing), **known)
    if not gap.next_name:
        return text
    return _("{gap}; then {work}").format(gap=text, work=clipped(unwrapped(gap.next_name), NAME_LIMIT))


def _doing(row: HostActivity) -> str:
    """What the host did, and where: at a call site, else in a region."""
    what, where = doing(row), site(row.site) or clipped(row.region, NAME_LIMIT)
    return _("{what} ({where})").format(what=what, where=where) if where and where != what else what


def left_out(view: StepView) -> str:
    """What of the step is not drawn; "" for nothing."""
    parts = []
    if view.more_streams:
        parts.append(
            ngettext("{count} more stream", "{count} more streams", view.more_streams).format(count=view.more_streams)
        )
    if view.more_threads:
        parts.append(
            ngettext("{count} more thread", "{count} more threads", view.more_threads).format(count=view.more_threads)
        )
    if view.more_pieces:
        parts.append(
            ngettext("{count:,} shorter span", "{count:,} shorter spans", view.more_pieces).format(
                count=view.more_pieces
            )
        )
    return listed(parts)
