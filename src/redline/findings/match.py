"""Match all rules against one rank, while its trace is open: which rule claims which of its time.

Rules claim in the order of `claim_order`, each what the ones before it have left. Exposed communication is nobody's
here: whether it was transfer or waiting takes the other ranks to tell.
"""

from collections.abc import Sequence

import numpy as np

from redline.errors import InputError
from redline.findings.registry import RULES, rules_for
from redline.findings.rule import Rule, RuleMatch
from redline.ledger.accounts import IDLE, Account
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.rank_match import RankMatch, longest
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import TimelineOrigin

COMPUTE = "compute"


def match_rules(analysis: RankAnalysis) -> tuple[RankMatch, ...]:
    return matches_of(analysis, rules_of(analysis))


def rules_of(analysis: RankAnalysis) -> Sequence[Rule]:
    """Those that hold for such a timeline."""
    return rules_for(predicted=analysis.timeline.origin is TimelineOrigin.PREDICTED)


def matches_of(analysis: RankAnalysis, rules: Sequence[Rule]) -> tuple[RankMatch, ...]:
    return claimed_in_order(analysis, matched_rules(analysis, rules))


def matched_rules(analysis: RankAnalysis, rules: Sequence[Rule]) -> list[tuple[Rule, RuleMatch]]:
    """Rules that match, each with all that it claims in steps, whoever else claims it."""
    pairs = ((rule, rule.match(analysis) if rule.match is not None else None) for rule in rules)
    matched = [(rule, match) for rule, match in pairs if match is not None]
    for _, match in matched:
        match.claim &= analysis.in_steps
    return matched


def claimed_in_order(analysis: RankAnalysis, found: Sequence[tuple[Rule, RuleMatch]]) -> tuple[RankMatch, ...]:
    claimed = analysis.activity.communicating
    matches = []
    for rule, matched in found:
        whole = matched.claim
        alone = whole - analysis.activity.communicating
        # What is too little to be said must not be missing where another rule says it.
        is_said = alone.length_ns >= rule.least_share * analysis.steps_ns
        rest = whole - claimed if is_said else Intervals.empty()
        claimed |= rest
        ledger = analysis.ledger
        matches.append(
            RankMatch(
                code=rule.code,
                claimed_ns=rest.overlap_with(ledger.start_ns, ledger.end_ns),
                alone_ns=alone.overlap_with(ledger.start_ns, ledger.end_ns),
                accounts=_accounts(analysis, rest),
                places=longest(alone),
                figures=dict(matched.figures),
                names=dict(matched.names),
            )
        )
    return tuple(matches)


def _accounts(analysis: RankAnalysis, time: Intervals) -> dict[str, int]:
    times = {COMPUTE: analysis.activity.computing, str(Account.COPY): analysis.activity.copying}
    times |= {str(account): analysis.idle.accounts[account] for account in IDLE}
    amounts = {name: int(np.sum(of_account.overlap_with(time.start, time.end))) for name, of_account in times.items()}
    return {name: amount for name, amount in amounts.items() if amount}


_BY_CODE = {rule.code: rule for rule in RULES}


def check_matches(digest: Digest, where: str) -> None:
    """InputError where something is missing. Matches of rules of other versions are ignored."""
    for match in digest.matches:
        wrong = _missing(match)
        if wrong:
            raise InputError(f"{where}: not a sound digest ({wrong}). Make it anew: redline digest")


def _missing(match: RankMatch) -> str:
    rule = _BY_CODE.get(match.code)
    if rule is None:
        return ""
    if rule.match is None:
        return f"{rule.code} is told from all ranks together, not from one"
    figures = [name for name in rule.figures if name not in match.figures]
    names = [name for name in rule.names if name not in match.names]
    return f"{rule.code} without its {[*figures, *names][0]!r}" if figures or names else ""
