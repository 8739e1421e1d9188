"""Aggregate the matches of all ranks into findings: added up, weighed, ranked by what they are worth at most."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from redline.findings.done_well import praise_of
from redline.findings.evidence import Bearing, Evidence
from redline.findings.exposed import time_of
from redline.findings.finding import Finding, Findings, GainForecast
from redline.findings.job_gain import JobGain, Pieces
from redline.findings.match import COMPUTE
from redline.findings.registry import rules_for
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.total import Total
from redline.findings.verdict import has_steps, verdict_of
from redline.ledger.accounts import Account
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import Outline
from redline.ledger.rank.rank_match import RankMatch, longest
from redline.timeline.intervals import Intervals
from redline.timeline.side_by_side import SideBySide, blocks_of
from redline.timeline.table import I64

_FEWEST_STEPS = 4  # that may show a pattern
_MOSTLY = 0.7  # of what a finding gains in all steps
_SHOWN_DIGITS = 3  # of a share: two gains that are shown as one are the same for whoever reads them
_UNEVEN = 1.2  # times what the average rank has: a job that gains more has ranks that differ


def findings_of(diagnosis: Diagnosis, outline: Outline, rules: Sequence[Rule] | None = None) -> Findings:
    """Shares are of the recorded steps: what recording or other load adds to them is in nobody's account."""
    rules = rules_for(predicted=diagnosis.predicted) if rules is None else rules
    gain = JobGain(diagnosis=diagnosis)
    totals = _on_ranks(diagnosis, rules)
    claimed: list[Intervals] = [Intervals.empty()] * len(diagnosis.ranks)
    listed: list[Finding] = []
    of_job: dict[str, tuple[Intervals, ...]] = {}
    for rule in rules:
        matched = _matched(rule, diagnosis, listed)
        total = _of_job(rule, matched, gain, claimed) if matched is not None else totals[rule.code]
        said = list(_weighed(rule, total, gain))
        listed.extend(said)
        if said and matched is not None:  # what is too little to be said, another rule may still say
            claimed = [before | claim for before, claim in zip(claimed, _claims(matched, diagnosis), strict=True)]
            of_job[rule.code] = tuple(_claims(matched, diagnosis))
    of_window = not has_steps(outline)
    listed = [replace(finding, of_window=of_window) for finding in listed]
    indirect = {rule.code for rule in rules if rule.is_indirect}
    ranked = tuple(sorted(listed, key=lambda finding: _rank(finding, finding.code in indirect)))
    silent = {rule.code for rule in rules if not rule.claims_time}
    launch_bound = {rule.code for rule in rules if rule.is_launch_bound}
    findings = tuple(_with_caveats([finding for finding in ranked if finding.code not in silent], launch_bound))
    verdict = verdict_of(diagnosis, outline, findings)
    return Findings(
        verdict=verdict,
        findings=findings,
        remarks=tuple(finding for finding in ranked if finding.code in silent),
        praise=tuple(praise_of(diagnosis, outline, verdict)),
        claims=of_job,
    )


def with_forecasts(
    findings: Findings, forecasts: Mapping[str, GainForecast], diagnosis: Diagnosis, outline: Outline
) -> Findings:
    """The same findings with what each gains by the replay, in the order of that."""
    indirect = {rule.code for rule in rules_for(predicted=diagnosis.predicted) if rule.is_indirect}
    listed = [replace(finding, forecast=forecasts.get(finding.code)) for finding in findings.findings]
    ranked = tuple(sorted(listed, key=lambda finding: _rank(finding, finding.code in indirect)))
    return replace(findings, findings=ranked, verdict=verdict_of(diagnosis, outline, ranked))


def _rank(finding: Finding, is_indirect: bool) -> tuple[bool, float, bool, float, float, str]:
    """What gains most comes first, by the share that is shown; last is what nobody should act on."""
    share, expected_ns = round(finding.expected_share, _SHOWN_DIGITS), finding.expected_ns
    return finding.is_void, -share, is_indirect, -finding.bound_ns, -expected_ns, finding.code


def _with_caveats(findings: Sequence[Finding], launch_bound: Collection[str]) -> Iterator[Finding]:
    """Where the host is what limits, shorter kernels only make it wait elsewhere."""
    launching = next((finding for finding in findings if finding.code in launch_bound), None)
    for finding in findings:
        of_kernels = finding.accounts.get(COMPUTE, 0.0) > sum(finding.accounts.values()) / 2
        if launching is not None and of_kernels and finding.bound_ns < launching.bound_ns:
            caveat = Evidence(
                "The step is host-bound: until {code} is fixed, faster kernels gain little.",
                {"code": launching.code},
                Bearing.WEAKENS,
            )
            yield replace(finding, evidence=(*finding.evidence, caveat))
        else:
            yield finding


def _matched(rule: Rule, diagnosis: Diagnosis, findings: Sequence[Finding]) -> JobMatch | None:
    """None of a rule that matches on single ranks."""
    if rule.match_findings is not None:
        return rule.match_findings(findings)
    return rule.match_job(diagnosis) if rule.match_job is not None else None


def _on_ranks(diagnosis: Diagnosis, rules: Sequence[Rule]) -> dict[str, Total]:
    """Matches on single ranks, added up by rule. Ranks are gone through once: there may be many."""
    totals = {rule.code: Total(rule) for rule in rules}
    for place, rank in enumerate(diagnosis.ranks):
        for code, match in {rank_match.code: rank_match for rank_match in rank.matches}.items():
            if code in totals:
                totals[code].add(rank, _with_exchanges(totals[code].rule, diagnosis, place, match), place)
    return totals


def _with_exchanges(rule: Rule, diagnosis: Diagnosis, place: int, match: RankMatch) -> RankMatch:
    """What it gains alone, with the transfer that ends with it; waiting for late ranks only moves elsewhere."""
    if rule.ends is None:
        return match
    rank = diagnosis.ranks[place]
    exposed = time_of(rank, rule.ends(rank)) - diagnosis.waiting[place]
    return replace(match, alone_ns=match.alone_ns + exposed.overlap_with(rank.ledger.start_ns, rank.ledger.end_ns))


def _of_job(rule: Rule, matched: JobMatch, gain: JobGain, claimed: Sequence[Intervals]) -> Total:
    """Claims of exposed communication that no rule before has claimed; figures are the job's, so one rank has them."""
    total, diagnosis = Total(rule), gain.diagnosis
    claims = _claims(matched, diagnosis)
    for places in blocks_of(len(diagnosis.ranks)):
        ranks = diagnosis.ranks[places]
        line = SideBySide.of([rank.window_ns for rank in ranks])
        begin_ns = line.moments([rank.ledger.start_ns for rank in ranks])
        end_ns = line.moments([rank.ledger.end_ns for rank in ranks])
        in_steps = Intervals.union_of(begin_ns, end_ns)
        alone = line.joined(claims[places]) & line.joined([rank.exposed for rank in ranks]) & in_steps
        rest = alone - line.joined(claimed[places])
        _add_matches(total, matched, places, (line, begin_ns, end_ns), (alone, rest), diagnosis)
        if rule.of_one_rank:
            continue
        total.claimed_pieces.append(gain.pieces_of(places, line, rest))
        if matched.beside:
            alone |= line.joined(matched.beside[places]) & in_steps
        total.alone_pieces.append(gain.pieces_of(places, line, alone))
    return total


def _add_matches(
    total: Total,
    matched: JobMatch,
    places: slice,
    line_and_steps: tuple[SideBySide, I64, I64],
    alone_and_rest: tuple[Intervals, Intervals],
    diagnosis: Diagnosis,
) -> None:
    """Rank by rank what it gains alone, and the rest that no rule before has claimed."""
    (line, begin_ns, end_ns), (alone, rest) = line_and_steps, alone_and_rest
    waiting = rest & line.joined(diagnosis.waiting[places])
    rest_ns, waiting_ns = line.lengths_ns(rest).tolist(), line.lengths_ns(waiting).tolist()
    by_step = rest.overlap_with(begin_ns, end_ns), alone.overlap_with(begin_ns, end_ns)
    until = 0
    for number, time in enumerate(line.split(alone)):
        place = places.start + number
        rank = diagnosis.ranks[place]
        of_rank = slice(until, until := until + len(rank.ledger.start_ns))
        accounts = {
            str(Account.PEER_WAIT): waiting_ns[number],
            str(Account.TRANSFER): rest_ns[number] - waiting_ns[number],
        }
        match = RankMatch(
            code=total.rule.code,
            claimed_ns=by_step[0][of_rank],
            alone_ns=by_step[1][of_rank],
            accounts={account: amount for account, amount in accounts.items() if amount},
            places=longest(time),
            figures=matched.figures if not place else {},
            names=matched.names if not place else {},
        )
        total.add(rank, match, place)


def _claims(matched: JobMatch, diagnosis: Diagnosis) -> Sequence[Intervals]:
    return matched.claims or [Intervals.empty()] * len(diagnosis.ranks)


def _weighed(rule: Rule, total: Total, gain: JobGain) -> Iterator[Finding]:
    """A finding where the rule has something to say."""
    diagnosis = gain.diagnosis
    steps = max(diagnosis.rank_steps, 1)
    step_ns = float(diagnosis.in_steps.sum()) / steps
    if not total.matches or not step_ns:
        return
    totals = MatchTotals(
        ranks=total.ranks,
        steps=diagnosis.rank_steps,
        step_ns=step_ns,
        bound_ns=total.claimed_ns / steps,
        alone_ns=total.alone_ns / steps,
        figures=total.figures,
        names=total.commonest_names,
    )
    alone = gain.alone(total.alone_by_rank, Pieces.joined(total.alone_pieces))
    if rule.claims_time and gain.share(alone) < rule.least_share:
        return
    evidence = tuple(rule.explain(totals))
    if not evidence:
        return
    uneven = _uneven(total, gain, gain.share(alone) * step_ns, totals.alone_ns) if rule.match is not None else ()
    beyond = gain.beyond(total.places, total.claimed_by_rank, Pieces.joined(total.claimed_pieces))
    yield Finding(
        code=rule.code,
        numerics=rule.numerics,
        grade=rule.grade,
        step_ns=step_ns,
        bound_ns=gain.share(np.minimum(beyond, alone)) * step_ns,
        alone_ns=gain.share(alone) * step_ns,
        steady_share=gain.steady_share(alone),
        accounts={account: amount / steps for account, amount in total.accounts.most_common()},
        ranks=totals.ranks,
        places=total.longest_places,
        evidence=(*evidence, *uneven, *_when(alone)),
        fix=rule.fix(totals) if rule.fix is not None else None,
    )


def _when(gained_ns: I64) -> Iterator[Evidence]:
    """Where most of it is in some of the steps: in which, if they are equally far apart."""
    shows = gained_ns > gained_ns.max(initial=0) / 2
    steps = np.flatnonzero(shows)
    is_in_some = len(steps) <= len(gained_ns) / 2 and gained_ns[shows].sum() >= _MOSTLY * gained_ns.sum()
    if len(gained_ns) < _FEWEST_STEPS or not len(steps) or not is_in_some:
        return
    apart = np.diff(steps)
    if len(apart) and apart.min() == apart.max() > 1:
        yield Evidence("The loss shows every {period} steps.", {"period": int(apart[0])})
    else:
        yield Evidence("The loss shows in {shown} of {steps} steps.", {"shown": len(steps), "steps": len(gained_ns)})


def _uneven(total: Total, gain: JobGain, alone_ns: float, average_ns: float) -> Iterator[Evidence]:
    """Where the ranks differ, why the job gains more than its average rank."""
    if not alone_ns or alone_ns < _UNEVEN * average_ns:
        return
    sums = [int(of_rank.sum()) for of_rank in total.alone_by_rank]
    worst = int(np.argmax(sums))
    rank = gain.diagnosis.ranks[total.places[worst]]
    yield Evidence(
        "The ranks differ: it takes rank {rank} {most_ns} of each step, the average rank {average_ns}. The others "
        "wait, so the job can gain what the slowest gains.",
        {
            "rank": str(rank.origin.rank),
            "most_ns": sums[worst] / max(len(rank.ledger.start_ns), 1),
            "average_ns": average_ns,
        },
    )
