"""Aggregate the matches of all ranks into findings: added up, weighed, ranked by what they are worth at most."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from redline.analysis.accounts import Account
from redline.analysis.job.combine import Diagnosis
from redline.analysis.job.first_screen import Outline
from redline.analysis.rank.digest import Digest
from redline.analysis.rank.rank_match import RankMatch, longest
from redline.findings.done_well import praise_of
from redline.findings.evidence import Bearing, Evidence
from redline.findings.finding import Finding, Findings
from redline.findings.match import COMPUTE
from redline.findings.registry import rules_for
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.total import Total
from redline.findings.usual_steps import is_usual
from redline.findings.verdict import has_steps, verdict_of
from redline.timeline.intervals import Intervals


def findings_of(diagnosis: Diagnosis, outline: Outline, rules: Sequence[Rule] | None = None) -> Findings:
    rules = rules_for(predicted=diagnosis.predicted) if rules is None else rules
    totals, steady_ns = _on_ranks(diagnosis, rules), _steady_ns(diagnosis.ranks)
    claimed: list[Intervals] = [Intervals.empty()] * len(diagnosis.ranks)
    listed: list[Finding] = []
    for rule in rules:
        matched = _matched(rule, diagnosis, listed)
        total = _of_job(rule, matched, diagnosis, claimed) if matched is not None else totals[rule.code]
        said = list(_weighed(rule, total, diagnosis, steady_ns))
        listed.extend(said)
        if said and matched is not None:  # what is too little to be said, another rule may still say
            claimed = [before | claim for before, claim in zip(claimed, _claims(matched, diagnosis), strict=True)]
    of_window = not has_steps(outline)
    listed = [replace(finding, of_window=of_window) for finding in listed]
    ranked = tuple(sorted(listed, key=lambda finding: (-finding.bound_ns, -finding.alone_ns, finding.code)))
    silent = {rule.code for rule in rules if not rule.claims_time}
    launch_bound = {rule.code for rule in rules if rule.is_launch_bound}
    findings = tuple(_with_caveats([finding for finding in ranked if finding.code not in silent], launch_bound))
    verdict = verdict_of(diagnosis, outline, findings)
    return Findings(
        verdict=verdict,
        findings=findings,
        remarks=tuple(finding for finding in ranked if finding.code in silent),
        praise=tuple(praise_of(diagnosis, outline, verdict)),
    )


def _with_caveats(findings: Sequence[Finding], launch_bound: Collection[str]) -> Iterator[Finding]:
    """Where the host is what limits, shorter kernels only make it wait elsewhere."""
    launching = next((finding for finding in findings if finding.code in launch_bound), None)
    for finding in findings:
        of_kernels = finding.accounts.get(COMPUTE, 0.0) > finding.bound_ns / 2
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
    for rank in diagnosis.ranks:
        for code, match in {rank_match.code: rank_match for rank_match in rank.matches}.items():
            if code in totals:
                totals[code].add(rank, match)
    return totals


def _of_job(rule: Rule, matched: JobMatch, diagnosis: Diagnosis, claimed: Sequence[Intervals]) -> Total:
    """Claims of exposed communication that no rule before has claimed; figures are the job's, so one rank has them."""
    total = Total(rule)
    for place, (rank, claim) in enumerate(zip(diagnosis.ranks, _claims(matched, diagnosis), strict=True)):
        ledger = rank.ledger
        in_steps = Intervals.union_of(ledger.start_ns, ledger.end_ns)
        alone = claim & rank.exposed & in_steps
        rest = alone - claimed[place]
        waiting_ns = (rest & diagnosis.waiting[place]).length_ns
        accounts = {str(Account.PEER_WAIT): waiting_ns, str(Account.TRANSFER): rest.length_ns - waiting_ns}
        match = RankMatch(
            code=rule.code,
            claimed_ns=rest.overlap_with(ledger.start_ns, ledger.end_ns),
            alone_ns=alone.overlap_with(ledger.start_ns, ledger.end_ns),
            accounts={account: amount for account, amount in accounts.items() if amount},
            places=longest(alone),
            figures=matched.figures if not place else {},
            names=matched.names if not place else {},
        )
        total.add(rank, match)
    return total


def _claims(matched: JobMatch, diagnosis: Diagnosis) -> Sequence[Intervals]:
    return matched.claims or [Intervals.empty()] * len(diagnosis.ranks)


def _weighed(rule: Rule, total: Total, diagnosis: Diagnosis, steady_ns: int) -> Iterator[Finding]:
    """A finding where the rule has something to say."""
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
    if rule.claims_time and totals.share < rule.least_share:
        return
    evidence = tuple(rule.explain(totals))
    if not evidence:
        return
    yield Finding(
        code=rule.code,
        numerics=rule.numerics,
        grade=rule.grade,
        step_ns=step_ns,
        bound_ns=totals.bound_ns,
        alone_ns=totals.alone_ns,
        steady_share=total.steady_alone_ns / steady_ns if steady_ns else 0.0,
        accounts={account: amount / steps for account, amount in total.accounts.most_common()},
        ranks=totals.ranks,
        places=total.longest_places,
        evidence=evidence,
        fix=rule.fix(totals) if rule.fix is not None else None,
    )


def _steady_ns(ranks: Sequence[Digest]) -> int:
    """Steps of usual length, of all ranks together."""
    lengths_ns = (rank.ledger.end_ns - rank.ledger.start_ns for rank in ranks)
    return sum(int(steps_ns[is_usual(steps_ns)].sum()) for steps_ns in lengths_ns)
