"""What is said of a replay: forecasts or why there are none, and what-ifs and the critical path as tables."""

from collections.abc import Iterator

from redline.findings.finding import Finding, GainForecast
from redline.findings.replayed import BesidePath, CriticalPathParts, PathPart, ReplayedJob, ReplayedScenario
from redline.ledger.rank.host_phases import Phase
from redline.report.diagnose import account_messages
from redline.report.diagnose.tables import phase_name
from redline.report.document import ReportTable
from redline.report.language import _, listed, marked, translate_rendered
from redline.report.text_parts import clipped, percent
from redline.units import format_count, format_ns

_NAME_LIMIT = 60  # letters
_FEW = 5  # operators and ranks, where there is little room
_SAME = 0.005  # of the step: less apart is shown as one number

REASONS = (
    marked("a plan draws the host as a gap, so a replay of it tells no more than the plan"),
    marked(
        "the job has {ranks} ranks, and at most {most} are replayed together: "
        "give the traces of fewer, such as some of each kind"
    ),
    marked(
        "the graph of this job has {edges} edges, and at most {most} are replayed: "
        "give the traces of fewer ranks, or of fewer steps"
    ),
    marked("the traces of {missing} of {ranks} ranks are not at hand, only their digests"),
    marked("exchanges of its ranks are recorded as if each had waited for the other"),
    marked("digests do not say how long the workers of the data loader take"),
    marked("digests hold no single kernels or operators: give the traces, or leave the name out"),
    marked("digests do not tell what {target} changes: give the traces"),
    marked("its forecast needs what digests do not hold"),
    marked("it was not replayed"),
    marked("nothing that the replay can change"),
    marked("more or other micro-batches are other work, and a replay only has the work that was recorded"),
    marked("{unexplained} of {starts} pieces of device work began when nothing that the trace records explains it"),
    marked(
        "the recorded dependencies do not explain the steps: replayed by them alone, these take {share} of their time"
    ),
    marked("the trace does not say how many workers the data loader has"),
    marked("the loop does not wait for the workers of its data loader, so what a batch takes them does not show"),
    marked("nothing in the trace is changed by {change}"),
    marked("there are no other ranks, of which the median could be taken"),
    marked("rank {rank} has exchanges that no other rank has, so there is none that it could be like"),
)


def reason_text(reason: str) -> str:
    return translate_rendered(reason, REASONS)


def forecast_text(finding: Finding) -> str:
    """What the replay says of a finding; "" where it was not replayed."""
    forecast = finding.forecast
    if forecast is None:
        return ""
    if forecast.declined:
        return _("no forecast: {reason}").format(reason=reason_text(forecast.declined))
    share = percent(finding.expected_share)
    if is_cut(finding, forecast):
        replayed = percent(forecast.replayed_ns / finding.step_ns)
        return _("forecast {share}, the bound: a replay alone says {replayed}").format(share=share, replayed=replayed)
    return _("forecast {share}").format(share=share)


def is_cut(finding: Finding, forecast: GainForecast) -> bool:
    """Whether the replay says more than the finding can gain at most."""
    return bool(finding.step_ns) and (forecast.replayed_ns - forecast.gain_ns) / finding.step_ns > _SAME


def limit_text(scenario: ReplayedScenario) -> str:
    if not scenario.limit:
        return "-"
    return _("{account} {share}").format(
        account=account_messages.name(scenario.limit), share=percent(scenario.limit_share)
    )


def beside_text(beside: BesidePath) -> str:
    """How much room the longest of it has."""
    return _("beside it {what}, {time} per step: any one of them could take {slack} longer before the steps do").format(
        what=clipped(beside.what, _NAME_LIMIT),
        time=format_ns(round(beside.time_ns)),
        slack=format_ns(beside.slack_ns),
    )


def explained_text(replayed: ReplayedJob) -> str:
    """How far the replay can be trusted."""
    if replayed.coarse:
        return _(
            "phases and exchanges alone were replayed, as {reason}: single kernels, calls and operators are not in "
            "it; by its rules alone the steps take {whole} of their time"
        ).format(reason=reason_text(replayed.coarse), whole=percent(1 + replayed.rule_error))
    return _(
        "replayed by the recorded dependencies alone, the steps take {whole} of their time; {share} of {starts} starts "
        "of device work are not explained by them"
    ).format(
        whole=percent(1 + replayed.rule_error),
        starts=format_count(replayed.starts),
        share=percent(replayed.unexplained_share),
    )


# --- tables -----------------------------------------------------------------------------------------------------------


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
        (_("account"), path.accounts, account_messages.name),
        (_("phase"), path.phases, part_phase),
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


def part_phase(name: str) -> str:
    return phase_name(Phase(name))


def operator_text(name: str) -> str:
    return clipped(name, _NAME_LIMIT)


def _amounts(part: PathPart) -> tuple[str, str]:
    return format_ns(round(part.time_ns)), percent(part.share)
