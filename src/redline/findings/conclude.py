"""Sightings of all ranks become findings: added up, weighed, ranked by what they are worth at most."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from redline.analysis.accounts import Account
from redline.analysis.job.combine import Diagnosis
from redline.analysis.job.outline import Outline
from redline.analysis.rank.digest import Digest
from redline.analysis.rank.sighting import Sighting, longest
from redline.findings.evidence import Evidence
from redline.findings.finding import Finding, Findings, Place
from redline.findings.observe import COMPUTE
from redline.findings.praise import praise_of
from redline.findings.registry import rules_for
from redline.findings.rule import JobLook, Rule, Seen
from redline.findings.steady import is_usual
from redline.findings.verdict import verdict_of
from redline.timeline.intervals import Intervals

_MOST_PLACES = 8
_SLOW_LAUNCHES = ("RL-H01", "RL-H02", "RL-ID01")  # findings that say the host launches too slowly


def findings_of(diagnosis: Diagnosis, outline: Outline, rules: Sequence[Rule] | None = None) -> Findings:
    rules = rules_for(predicted=diagnosis.predicted) if rules is None else rules
    sightings = _on_ranks(diagnosis)
    claimed: list[Intervals] = [Intervals.empty()] * len(diagnosis.ranks)
    found: list[Finding] = []
    for rule in rules:
        looked = _looked(rule, diagnosis, found)
        seen = _job_sightings(rule, looked, diagnosis, claimed) if looked is not None else sightings.get(rule.code, {})
        said = list(_weighed(rule, seen, diagnosis))
        found.extend(said)
        if said and looked is not None:  # what is too little to be said, another rule may still say
            claimed = [one | claim for one, claim in zip(claimed, _claims(looked, diagnosis), strict=True)]
    ranked = tuple(sorted(found, key=lambda one: (-one.bound_ns, -one.alone_ns, one.code)))
    silent = {rule.code for rule in rules if not rule.claims_time}
    findings = tuple(_with_caveats([one for one in ranked if one.code not in silent]))
    verdict = verdict_of(diagnosis, outline, findings)
    return Findings(
        verdict=verdict,
        findings=findings,
        remarks=tuple(one for one in ranked if one.code in silent),
        praise=tuple(praise_of(diagnosis, outline, verdict)),
    )


def _with_caveats(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Where the host is what limits, shorter kernels only make it wait elsewhere."""
    launching = next((one for one in findings if one.code in _SLOW_LAUNCHES), None)
    for one in findings:
        of_kernels = one.accounts.get(COMPUTE, 0.0) > one.bound_ns / 2
        if launching is not None and of_kernels and one.bound_ns < launching.bound_ns:
            caveat = Evidence(
                "The host limits this step: until {code} is fixed, shorter kernels gain little.",
                {"code": launching.code},
            )
            yield replace(one, evidence=(*one.evidence, caveat))
        else:
            yield one


def _looked(rule: Rule, diagnosis: Diagnosis, found: Sequence[Finding]) -> JobLook | None:
    """None of a rule that looks at single ranks."""
    if rule.look_at_findings is not None:
        return rule.look_at_findings(found)
    return rule.look_at_job(diagnosis) if rule.look_at_job is not None else None


def _on_ranks(diagnosis: Diagnosis) -> dict[str, dict[int, Sighting]]:
    """By rule, then by the place of the rank."""
    found: dict[str, dict[int, Sighting]] = defaultdict(dict)
    for place, rank in enumerate(diagnosis.ranks):
        for sighting in rank.sightings:
            found[sighting.code][place] = sighting
    return found


def _job_sightings(rule: Rule, looked: JobLook, diagnosis: Diagnosis, claimed: list[Intervals]) -> dict[int, Sighting]:
    """Claims of exposed communication that no rule before has claimed; figures are the job's, so one rank has them."""
    found = {}
    for place, (rank, claim) in enumerate(zip(diagnosis.ranks, _claims(looked, diagnosis), strict=True)):
        ledger = rank.ledger
        in_steps = Intervals.union_of(ledger.start_ns, ledger.end_ns)
        alone = claim & rank.exposed & in_steps
        rest = alone - claimed[place]
        waiting_ns = int((rest & diagnosis.waiting[place]).length_ns)
        accounts = {str(Account.PEER_WAIT): waiting_ns, str(Account.TRANSFER): rest.length_ns - waiting_ns}
        found[place] = Sighting(
            code=rule.code,
            claimed_ns=rest.overlap_with(ledger.start_ns, ledger.end_ns),
            alone_ns=alone.overlap_with(ledger.start_ns, ledger.end_ns),
            accounts={account: amount for account, amount in accounts.items() if amount},
            places=longest(alone),
            figures=looked.figures if not place else {},
            names=looked.names if not place else {},
        )
    return found


def _claims(looked: JobLook, diagnosis: Diagnosis) -> Sequence[Intervals]:
    return looked.claims or [Intervals.empty()] * len(diagnosis.ranks)


def _weighed(rule: Rule, sightings: Mapping[int, Sighting], diagnosis: Diagnosis) -> Iterator[Finding]:
    """A finding where the rule has something to say."""
    steps = max(diagnosis.rank_steps, 1)
    step_ns = float(diagnosis.in_steps.sum()) / steps
    if not sightings or not step_ns:
        return
    seen = Seen(
        ranks=sum(1 for one in sightings.values() if one.alone_ns.any() or not rule.claims_time),
        steps=diagnosis.rank_steps,
        step_ns=step_ns,
        bound_ns=sum(int(one.claimed_ns.sum()) for one in sightings.values()) / steps,
        alone_ns=sum(int(one.alone_ns.sum()) for one in sightings.values()) / steps,
        figures=_added(sightings.values()),
        names=_commonest(sightings.values()),
    )
    if rule.claims_time and seen.share < rule.least_share:
        return
    evidence = tuple(rule.explain(seen))
    if not evidence:
        return
    yield Finding(
        code=rule.code,
        numerics=rule.numerics,
        grade=rule.grade,
        step_ns=step_ns,
        bound_ns=seen.bound_ns,
        alone_ns=seen.alone_ns,
        steady_share=_steady_share(sightings, diagnosis.ranks),
        accounts=_accounts(sightings.values(), steps),
        ranks=seen.ranks,
        places=_places(sightings, diagnosis.ranks),
        evidence=evidence,
    )


def _added(sightings: Iterable[Sighting]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for one in sightings:
        for name, amount in one.figures.items():
            total[name] += amount
    return dict(total)


def _commonest(sightings: Iterable[Sighting]) -> dict[str, str]:
    """What most ranks say."""
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for one in sightings:
        for name, text in one.names.items():
            said[name][text] += 1
    return {name: texts.most_common(1)[0][0] for name, texts in said.items()}


def _accounts(sightings: Iterable[Sighting], steps: int) -> dict[str, float]:
    total: Counter[str] = Counter()
    for one in sightings:
        total.update(one.accounts)
    return {account: amount / steps for account, amount in total.most_common()}


def _steady_share(sightings: Mapping[int, Sighting], ranks: Sequence[Digest]) -> float:
    """Of the time in steps of usual length, on all ranks."""
    alone_ns = length_ns = 0
    for place, rank in enumerate(ranks):
        steps_ns = rank.ledger.end_ns - rank.ledger.start_ns
        usual = is_usual(steps_ns)
        length_ns += int(steps_ns[usual].sum())
        if place in sightings:
            alone_ns += int(sightings[place].alone_ns[usual].sum())
    return alone_ns / length_ns if length_ns else 0.0


def _places(sightings: Mapping[int, Sighting], ranks: Sequence[Digest]) -> tuple[Place, ...]:
    found = [
        Place(
            rank=ranks[place].origin.rank,
            start_ns=start - ranks[place].window_ns[0],
            end_ns=end - ranks[place].window_ns[0],
        )
        for place, one in sightings.items()
        for start, end in zip(one.places.start.tolist(), one.places.end.tolist(), strict=True)
    ]
    return tuple(sorted(found, key=lambda one: (one.start_ns - one.end_ns, one.rank, one.start_ns))[:_MOST_PLACES])
