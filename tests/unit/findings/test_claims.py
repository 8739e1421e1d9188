"""No nanosecond is claimed twice, whatever rules claim: bounds add up to what is there at most."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from redline.findings.aggregate import findings_of, with_forecasts
from redline.findings.evidence import Evidence, Grade
from redline.findings.finding import Finding, Findings, GainForecast
from redline.findings.match import matches_of
from redline.findings.rule import ClaimOrder, JobMatch, MatchTotals, Rule, RuleMatch
from redline.ledger.accounts import COMPUTE as KERNEL_ACCOUNTS
from redline.ledger.job.combine import Diagnosis, combine
from redline.ledger.job.first_screen import outline_of
from redline.ledger.rank.digest import digest_of
from redline.ledger.rank.rank_analysis import RankAnalysis, analysis_of
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import Timeline
from tests.support.events import collective, document, kernel, launch, read_one
from tests.support.rules.matching import step

LENGTH_NS = 400_000

# --- made-up rules over a made-up rank --------------------------------------------------------------------------------


@cache
def timeline() -> Timeline:
    """Three steps with compute, exposed and hidden communication, copies, and idle time before, between and after."""
    events = [step(0, 10, 100), step(1, 110, 90), step(2, 230, 150), collective(60, 60), collective(240, 100)]
    for place, (ts, dur) in enumerate([(20, 30), (55, 30), (130, 40), (250, 20), (300, 60)]):
        events += [launch(ts - 5, place + 1), kernel("gemm", ts, dur, correlation=place + 1)]
    events.append(kernel("Memcpy DtoD", 180, 15, correlation=99, category="gpu_memcpy"))
    with TemporaryDirectory() as folder:
        return read_one(document(events), Path(folder))


times = st.integers(min_value=0, max_value=LENGTH_NS)
claims = st.lists(st.tuples(times, times), max_size=6).map(
    lambda pairs: Intervals.union_of(
        np.array([min(pair) for pair in pairs], np.int64), np.array([max(pair) for pair in pairs], np.int64)
    )
)
many_claims = st.lists(st.tuples(claims, st.booleans()), min_size=1, max_size=6)


def says_something(_: MatchTotals) -> list[Evidence]:
    return [Evidence("It was seen.")]


def claiming(claim: Intervals) -> Callable[[RankAnalysis], RuleMatch]:
    return lambda _: RuleMatch(claim)


def claiming_of_job(claim: Intervals) -> Callable[[Diagnosis], JobMatch]:
    return lambda _: JobMatch([claim])


def rules_for(wanted: Sequence[tuple[Intervals, bool]]) -> tuple[Rule, ...]:
    """One for each claim: of the rank, or of the job's exposed communication."""
    return tuple(
        Rule(
            code=f"RL-X{place:02}",
            claims=ClaimOrder.MOMENTS,
            numerics=Numerics.BITWISE,
            grade=Grade.HYPOTHESIS,
            sentences=(says_something,),
            match=None if of_job else claiming(claim),
            match_job=claiming_of_job(claim) if of_job else None,
            least_share=0.0,
        )
        for place, (claim, of_job) in enumerate(wanted)
    )


def diagnosed(rules: Sequence[Rule]) -> tuple[Diagnosis, Findings]:
    diagnosis = combine([digest_of(timeline(), None, match=lambda analysis: matches_of(analysis, rules))])
    return diagnosis, findings_of(diagnosis, outline_of(diagnosis), rules)


def union_of(parts: Sequence[Intervals]) -> Intervals:
    whole = Intervals.empty()
    for part in parts:
        whole |= part
    return whole


# --- what holds for all of them ---------------------------------------------------------------------------------------


@given(many_claims)
def test_a_rank_s_claims_are_disjoint_and_leave_nothing_out(wanted: list[tuple[Intervals, bool]]) -> None:
    analysis: RankAnalysis = analysis_of(timeline(), None)
    rules = rules_for([(claim, False) for claim, _ in wanted])
    seen = matches_of(analysis, rules)
    start_ns, end_ns = analysis.ledger.start_ns, analysis.ledger.end_ns
    claimable = union_of([claim for claim, _ in wanted]) - analysis.activity.communicating
    claimed_ns = np.sum([one.claimed_ns for one in seen], axis=0)
    assert claimed_ns.tolist() == claimable.overlap_with(start_ns, end_ns).tolist()
    for one, (claim, _) in zip(seen, wanted, strict=True):
        alone = claim - analysis.activity.communicating
        assert (one.alone_ns == alone.overlap_with(start_ns, end_ns)).all()
        assert (one.claimed_ns <= one.alone_ns).all()
        assert sum(one.accounts.values()) == one.claimed_ns.sum()
        assert (analysis.in_steps & alone).overlap_with(one.places.start, one.places.end).sum() == one.places.length_ns


@given(many_claims)
def test_bounds_add_up_to_what_is_claimed_and_are_ranked(wanted: list[tuple[Intervals, bool]]) -> None:
    diagnosis, found = diagnosed(rules_for(wanted))
    (rank,) = diagnosis.ranks
    in_steps = Intervals.union_of(rank.ledger.start_ns, rank.ledger.end_ns)
    of_rank = union_of([claim for claim, of_job in wanted if not of_job]) - rank.exposed
    of_job = union_of([claim for claim, is_of_job in wanted if is_of_job]) & rank.exposed
    findings = found.findings
    total_ns = ((of_rank | of_job) & in_steps).length_ns / 3  # steps
    assert np.isclose(sum(one.bound_ns for one in findings), total_ns)
    assert total_ns <= in_steps.length_ns / 3
    shown = [round(one.alone_share, 3) for one in findings]
    assert shown == sorted(shown, reverse=True)
    for one in findings:
        _check(one)


def _check(one: Finding) -> None:
    assert 0 <= one.bound_ns <= one.alone_ns <= one.step_ns
    assert 0 <= one.steady_share <= 1
    assert one.speedup >= 1
    assert np.isclose(sum(one.accounts.values()), one.bound_ns)
    assert all(0 <= place.start_ns < place.end_ns <= LENGTH_NS for place in one.places)


# --- one order --------------------------------------------------------------------------------------------------------


@given(many_claims, st.data())
def test_the_verdict_rests_on_the_first_of_the_list_which_is_in_order_of_what_is_shown(
    wanted: list[tuple[Intervals, bool]], data: st.DataObject
) -> None:
    rules = rules_for(wanted)
    diagnosis, listed = diagnosed(rules)
    outline = outline_of(diagnosis)
    gains = {
        one.code: GainForecast(gain_ns=data.draw(st.floats(0.0, 1.0)) * one.alone_ns, replayed_ns=one.alone_ns)
        for one in listed.findings
        if data.draw(st.booleans())
    }
    for findings in (listed, findings_of(diagnosis, outline, rules), with_forecasts(listed, gains, diagnosis, outline)):
        shown = [round(one.expected_share, 3) for one in findings.findings]
        assert shown == sorted(shown, reverse=True)
        if findings.verdict.worthwhile:
            assert findings.verdict.first == findings.findings[0].code


@given(many_claims)
def test_no_account_loses_more_than_it_has(wanted: list[tuple[Intervals, bool]]) -> None:
    diagnosis, listed = diagnosed(rules_for(wanted))
    per_step = {str(account): amount for account, amount in diagnosis.per_step.items()}
    per_step["compute"] = sum(per_step[name] for name in map(str, KERNEL_ACCOUNTS))
    for account in {account for one in listed.findings for account in one.accounts}:
        claimed_ns = sum(one.accounts.get(account, 0.0) for one in listed.findings)
        assert claimed_ns <= per_step[account] + 1
    for one in listed.findings:
        assert one.bound_ns <= one.alone_ns <= one.step_ns


# --- rules that claim nothing, and rules that look at findings --------------------------------------------------------


def test_a_rule_may_look_at_what_was_found_before_it() -> None:
    everything = Intervals(np.array([0]), np.array([LENGTH_NS]))
    met: list[list[str]] = []

    def match(findings: Sequence[Finding]) -> JobMatch:
        met.append([one.code for one in findings])
        return JobMatch(codes=", ".join(met[-1]))

    remark = Rule(
        code="RL-Z01",
        claims=ClaimOrder.NOTHING,
        numerics=Numerics.BITWISE,
        grade=Grade.HYPOTHESIS,
        sentences=(lambda seen: [Evidence("Before: {codes}", {"codes": seen.names["codes"]})],),
        match_findings=match,
    )
    _, found = diagnosed([*rules_for([(everything, False)]), remark])
    assert met == [["RL-X00"]]
    assert [one.code for one in found.findings] == ["RL-X00"]
    (only,) = found.remarks
    assert only.evidence[0].values == {"codes": "RL-X00"}
    assert only.bound_ns == only.alone_ns == 0
    assert only.ranks == 1


def test_a_rule_is_silent_below_its_least_share_or_without_words() -> None:
    little = Intervals(np.array([20_000]), np.array([20_001]))
    (rule,) = rules_for([(little, False)])
    quiet = replace(rule, code="RL-X01", sentences=())
    demanding = replace(rule, code="RL-X02", least_share=0.5)
    assert [one.code for one in diagnosed([rule, quiet, demanding])[1].findings] == ["RL-X00"]


def test_where_the_host_limits_kernels_are_said_to_gain_little() -> None:
    def named(code: str, start_us: int, end_us: int) -> Rule:
        claim = Intervals.union_of(np.array([start_us * 1000]), np.array([end_us * 1000]))
        return replace(rules_for([(claim, False)])[0], code=code)

    idle, kernel_time = replace(named("RL-H01", 120, 240), is_launch_bound=True), named("RL-C02", 20, 40)
    _, both = diagnosed([idle, kernel_time])
    assert [one.code for one in both.findings] == ["RL-H01", "RL-C02"]
    assert both.findings[1].evidence[-1].values == {"code": "RL-H01"}
    _, alone = diagnosed([kernel_time])
    assert len(alone.findings[0].evidence) == 1


# --- what is not said, and what is said with a caveat -----------------------------------------------------------------


def time_between(*edges_ns: int) -> Intervals:
    return Intervals(np.array(edges_ns[::2]), np.array(edges_ns[1::2]))


def test_what_is_too_little_for_one_rule_another_may_claim() -> None:
    computing = time_between(10_000, 20_000)
    demanding, modest = rules_for([(computing, False), (computing, False)])
    (only,) = diagnosed([replace(demanding, least_share=0.5), modest])[1].findings
    assert (only.code, only.bound_ns) == (modest.code, only.alone_ns)


def test_what_is_too_little_for_one_rule_of_communication_another_may_claim() -> None:
    exposed = time_between(80_000, 90_000)
    demanding, modest = rules_for([(exposed, True), (exposed, True)])
    (only,) = diagnosed([replace(demanding, least_share=0.5), modest])[1].findings
    assert only.bound_ns > 0
    assert (only.code, only.bound_ns) == (modest.code, only.alone_ns)


def test_shorter_kernels_gain_little_while_the_host_limits() -> None:
    launching, smaller, larger, idle = rules_for(
        [
            (time_between(0, 10_000, 160_000, 170_000), False),
            (time_between(10_000, 20_000), False),
            (time_between(120_000, 160_000), False),
            (time_between(40_000, 45_000), False),
        ]
    )
    _, found = diagnosed([replace(launching, code="RL-H01", is_launch_bound=True), smaller, larger, idle])
    warned = [one.code for one in found.findings if any("host-bound" in said.message for said in one.evidence)]
    assert {one.code for one in found.findings} == {"RL-H01", smaller.code, larger.code, idle.code}
    assert warned == [smaller.code]
