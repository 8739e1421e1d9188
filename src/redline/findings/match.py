"""Match all rules against one rank, while its trace is open: which rule claims which of its time.

Rules claim in the order of `claim_order`, each what the ones before it have left. Exposed communication is nobody's
here: whether it was transfer or waiting takes the other ranks to tell.
"""

from collections.abc import Sequence

import numpy as np

from redline.analysis.accounts import IDLE, Account
from redline.analysis.rank.rank_analysis import RankAnalysis
from redline.analysis.rank.rank_match import RankMatch, longest
from redline.findings.registry import rules_for
from redline.findings.rule import Rule
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import TimelineOrigin

COMPUTE = "compute"


def match_rules(analysis: RankAnalysis) -> tuple[RankMatch, ...]:
    return matches_of(analysis, rules_for(predicted=analysis.timeline.origin is TimelineOrigin.PREDICTED))


def matches_of(analysis: RankAnalysis, rules: Sequence[Rule]) -> tuple[RankMatch, ...]:
    claimed = analysis.activity.communicating
    matches = []
    for rule in rules:
        matched = rule.match(analysis) if rule.match is not None else None
        if matched is None:
            continue
        whole = matched.claim & analysis.in_steps
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
