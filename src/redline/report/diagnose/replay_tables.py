"""What-ifs and the critical path as tables, for text, Markdown, pages and notebooks."""

from collections.abc import Iterator

from redline.findings.replayed import CriticalPathParts, PathPart, ReplayedJob, ReplayedScenario
from redline.ledger.rank.host_phases import Phase
from redline.report.diagnose import table_messages
from redline.report.diagnose.replay_messages import account_text, beside_text, explained_text, limit_text, reason_text
from redline.report.document import ReportTable
from redline.report.language import _, listed
from redline.report.text_parts import clipped, percent
from redline.units import format_ns

_NAME_LIMIT = 60
_FEW = 5  # operators and ranks, where there is little room


def replay_tables(replayed: ReplayedJob | None, *, verbose: bool = False) -> Iterator[ReportTable]:
    """None where nothing was replayed."""
    if replayed is None:
        return
    yield what_if_table(replayed)
    if replayed.path is not None:
        yield critical_path_table(replayed.path, verbose=verbose)


def what_if_table(replayed: ReplayedJob) -> ReportTable:
    asked = [*replayed.asked, *([] if replayed.after_first is None else [replayed.after_first])]
    rows = [row for scenario in asked for row in _rows(scenario, replayed)]
    if replayed.declined:
        said = [_("no forecast: {reason}").format(reason=reason_text(replayed.declined))]
    else:
        said = [explained_text(replayed)]
    return ReportTable(
        title=_("what if"),
        head=(_("scenario"), _("step"), _("after"), _("gain"), _("then most of the critical path is")),
        rows=tuple(rows),
        notes=tuple(said),
        empty=said[0],
    )


def _rows(scenario: ReplayedScenario, replayed: ReplayedJob) -> Iterator[tuple[str, ...]]:
    name = clipped(scenario.name, _NAME_LIMIT)
    if scenario is replayed.after_first:
        name = _("the first fixes together: {codes}").format(codes=listed(replayed.first_fixes))
    before = format_ns(round(scenario.step_ns))
    if scenario.declined and scenario.declined == replayed.declined:  # said once, below
        yield name, before, "-", "-", "-"
        return
    if scenario.declined:
        yield name, before, "-", "-", _("no forecast: {reason}").format(reason=reason_text(scenario.declined))
        return
    yield name, before, format_ns(round(scenario.after_ns)), percent(scenario.gain_share), limit_text(scenario)
    for rank, rank_before_ns, rank_after_ns in scenario.ranks:
        gain = (rank_before_ns - rank_after_ns) / rank_before_ns if rank_before_ns else 0.0
        of_rank = _("rank {rank}").format(rank=rank)
        yield f"  {of_rank}", format_ns(round(rank_before_ns)), format_ns(round(rank_after_ns)), percent(gain), ""


def critical_path_table(path: CriticalPathParts, *, verbose: bool) -> ReportTable:
    groups = (
        (_("account"), path.accounts, account_text),
        (_("phase"), path.phases, phase_text),
        (_("operator"), path.operators if verbose else path.operators[:_FEW], operator_text),
        (_("rank"), path.ranks if verbose else path.ranks[:_FEW], str),
    )
    return ReportTable(
        title=_("critical path"),
        head=(_("of"), _("what"), _("time"), _("share")),
        rows=tuple((of, named(part.what), *_amounts(part)) for of, parts, named in groups for part in parts),
        notes=(
            _("average step; only what lies on this path makes the step longer or shorter"),
            *map(beside_text, path.beside[:1]),
        ),
        empty=_("no steps in the traces"),
    )


def phase_text(name: str) -> str:
    return table_messages.phase(Phase(name))


def operator_text(name: str) -> str:
    return clipped(name, _NAME_LIMIT)


def _amounts(part: PathPart) -> tuple[str, str]:
    return format_ns(round(part.time_ns)), percent(part.share)
