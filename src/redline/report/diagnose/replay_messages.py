"""What is said of a replay: forecasts, why there is none, and what the steps are limited by."""

from redline.findings.finding import Finding, GainForecast
from redline.findings.match import COMPUTE
from redline.findings.replayed import BesidePath, ReplayedJob, ReplayedScenario
from redline.ledger.accounts import Account
from redline.report.diagnose import account_messages
from redline.report.language import _, marked, translate_rendered
from redline.report.text_parts import clipped, percent
from redline.units import format_count, format_ns

_NAME_LIMIT = 60  # letters
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


def account_text(account: str) -> str:
    """Of a critical path: compute is one account there."""
    return _("compute") if account == COMPUTE else account_messages.name(Account(account))


def limit_text(scenario: ReplayedScenario) -> str:
    if not scenario.limit:
        return "-"
    return _("{account} {share}").format(account=account_text(scenario.limit), share=percent(scenario.limit_share))


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
