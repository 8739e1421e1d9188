"""Aggregate the matches of all ranks into findings: added up, weighed, ranked by what they are worth at most."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from redline.findings.evidence import Bearing, Evidence
from redline.findings.exposed import time_of
from redline.findings.finding import ClaimedTime, Finding, Findings, GainForecast
from redline.findings.match import COMPUTE
from redline.findings.registry import rules_for
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.usual_steps import is_usual
from redline.findings.verdict import has_steps, praise_of, verdict_of
from redline.ledger.accounts import Account
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import Outline
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.rank_match import RankMatch, longest
from redline.timeline.intervals import Intervals
from redline.timeline.rank_axis import RankAxis, blocks_of
from redline.timeline.table import I64
from redline.values import dataclass

_MOST_PLACES = 8
_AT_ONCE = 1024  # places that are looked through together


class Total:
    """The matches of one rule, in order of ranks."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._names: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._places: list[tuple[int, int, int]] = []  # minus the length, rank, start
        self.matches = 0
        self.ranks = 0  # that it was seen on
        self.claimed_ns = 0
        self.alone_ns = 0
        self.places: list[int] = []  # of the ranks that it matches on, in the job
        self.claimed_by_rank: list[I64] = []  # by step, of these ranks
        self.alone_by_rank: list[I64] = []
        self.alone_pieces: list[Pieces] = []  # when, where that is exposed communication of all ranks
        self.claimed_pieces: list[Pieces] = []
        self.figures: defaultdict[str, float] = defaultdict(float)
        self.accounts: Counter[str] = Counter()

    def add(self, rank: Digest, match: RankMatch, place: int) -> None:
        self.matches += 1
        self.ranks += bool(match.alone_ns.any()) or not self.rule.claims_time
        self.claimed_ns += int(match.claimed_ns.sum())
        self.alone_ns += int(match.alone_ns.sum())
        self.places.append(place)
        self.claimed_by_rank.append(match.claimed_ns)
        self.alone_by_rank.append(match.alone_ns)
        self.accounts.update(match.accounts)
        for name, amount in match.figures.items():
            self.figures[name] += amount
        for name, text in match.names.items():
            self._names[name][text] += 1
        for start_ns, end_ns in zip(match.places.start.tolist(), match.places.end.tolist(), strict=True):
            self._places.append((start_ns - end_ns, rank.origin.rank, start_ns - rank.window_ns[0]))
        if len(self._places) > _AT_ONCE:
            self._places = sorted(self._places)[:_MOST_PLACES]

    @property
    def commonest_names(self) -> dict[str, str]:
        """The names that most ranks say."""
        return {name: texts.most_common(1)[0][0] for name, texts in self._names.items()}

    @property
    def longest_places(self) -> tuple[ClaimedTime, ...]:
        return tuple(
            ClaimedTime(rank=rank, start_ns=start_ns, end_ns=start_ns - minus_ns)
            for minus_ns, rank, start_ns in sorted(self._places)[:_MOST_PLACES]
        )


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Stretches of time inside steps, of one rank after the other, on one clock."""

    step: I64
    start_ns: I64
    end_ns: I64

    @classmethod
    def joined(cls, parts: Sequence["Pieces"]) -> "Pieces":
        none = np.empty(0, np.int64)
        return cls(
            step=np.concatenate([none, *(part.step for part in parts)]),
            start_ns=np.concatenate([none, *(part.start_ns for part in parts)]),
            end_ns=np.concatenate([none, *(part.end_ns for part in parts)]),
        )

    def united(self) -> "Pieces":
        """The same time in the fewest pieces: what several ranks have, once."""
        if not len(self.step):
            return self
        union, first_ns, apart_ns = self._union()
        step = union.start // apart_ns
        shift_ns = first_ns - step * apart_ns
        return Pieces(step=step, start_ns=union.start + shift_ns, end_ns=union.end + shift_ns)

    def union_by_step(self, steps: int) -> I64:
        """How long any rank has a piece, by step."""
        if not len(self.step):
            return np.zeros(steps, np.int64)
        union, _, apart_ns = self._union()
        begin_ns = np.arange(steps, dtype=np.int64) * apart_ns
        return union.overlap_with(begin_ns, begin_ns + apart_ns)

    def _union(self) -> tuple[Intervals, int, int]:
        """On a line on which each step has a stretch of time to itself; the time of its beginning, and their length."""
        first_ns = int(self.start_ns.min())
        apart_ns = int(self.end_ns.max()) - first_ns + 1
        shift_ns = self.step * apart_ns - first_ns
        return Intervals.union_of(self.start_ns + shift_ns, self.end_ns + shift_ns), first_ns, apart_ns


@dataclass(kw_only=True)
class JobGain:
    """Gains by step of the job. What one fix gains beyond those before it never adds up to more than the steps."""

    diagnosis: Diagnosis
    steps: int = field(init=False)
    lengths_ns: I64 = field(init=False)  # of each step, the average of the ranks
    _claimed_ns: I64 = field(init=False)  # for each rank and step, by all fixes so far
    _exchanged: list[Pieces] = field(init=False, default_factory=list)  # exposed communication that they claim
    _reached_ns: I64 = field(init=False)  # for each step, what all fixes so far gain together

    def __post_init__(self) -> None:
        lengths = [rank.ledger.end_ns - rank.ledger.start_ns for rank in self.diagnosis.ranks]
        self.steps = max(map(len, lengths), default=0)
        sums, counts = np.zeros(self.steps, np.int64), np.zeros(self.steps, np.int64)
        for of_rank in lengths:
            sums[: len(of_rank)] += of_rank
            counts[: len(of_rank)] += 1
        self.lengths_ns = sums // np.maximum(counts, 1)
        self._claimed_ns = np.zeros((len(lengths), self.steps), np.int64)
        self._reached_ns = np.zeros(self.steps, np.int64)

    def alone(self, by_rank: Iterable[I64], exchanged: Pieces) -> I64:
        """By step, as the only fix: the most of any rank; of exposed communication, the time that any rank has.

        Which rank the others wait for changes at collectives, so that of these more than the most of one can go.
        """
        most = np.zeros(self.steps, np.int64)
        for of_rank in by_rank:
            np.maximum(most[: len(of_rank)], of_rank, out=most[: len(of_rank)])
        return self._within_steps(np.maximum(most, exchanged.union_by_step(self.steps)))

    def beyond(self, places: Sequence[int], claimed: Sequence[I64], exchanged: Pieces) -> I64:
        """By step, what these claims of the ranks at these places add to what was claimed before."""
        for place, of_rank in zip(places, claimed, strict=True):
            self._claimed_ns[place, : len(of_rank)] += of_rank
        self._exchanged.append(exchanged)
        reached = self._claimed_ns.max(axis=0, initial=0)
        reached = np.maximum(reached, Pieces.joined(self._exchanged).union_by_step(self.steps))
        reached = np.maximum(self._within_steps(reached), self._reached_ns)
        gained: I64 = reached - self._reached_ns
        self._reached_ns = reached
        return gained

    def _within_steps(self, lost_ns: I64) -> I64:
        """At most the average step: the slowest rank may take longer."""
        lost: I64 = np.minimum(lost_ns, self.lengths_ns)
        return lost

    def share(self, by_step: I64) -> float:
        return float(by_step.sum()) / max(float(self.lengths_ns.sum()), 1.0)

    def steady_share(self, by_step: I64) -> float:
        """The share of steps of usual length only."""
        usual = is_usual(self.lengths_ns)
        return float(by_step[usual].sum()) / max(float(self.lengths_ns[usual].sum()), 1.0)

    def pieces_of(self, places: slice, side_by_side: RankAxis, inside: Intervals) -> Pieces:
        """Time inside steps of the ranks at these places, side by side, on the clock that all ranks share."""
        ranks = self.diagnosis.ranks[places]
        begin_ns = side_by_side.moments([rank.ledger.start_ns for rank in ranks])
        borders = begin_ns[inside.contains(begin_ns)]
        starts, ends = (np.sort(np.concatenate((edges, borders))) for edges in (inside.start, inside.end))
        rank = side_by_side.border_ns.searchsorted(starts, side="right") - 1
        first_step = np.cumsum([0, *(len(rank.ledger.start_ns) for rank in ranks)])
        step: I64 = begin_ns.searchsorted(starts, side="right") - 1 - first_step[rank]
        zero_ns = np.array([rank.zero_ns for rank in ranks], np.int64)
        offset_ns = np.array(self.diagnosis.clocks.offset_ns[places], np.int64)
        shift_ns = (zero_ns - offset_ns - side_by_side.shift_ns)[rank]
        return Pieces(step=step, start_ns=starts + shift_ns, end_ns=ends + shift_ns).united()


_FEWEST_STEPS = 4  # that may show a pattern
_MOSTLY = 0.7  # of what a finding gains in all steps
_SHOWN_DIGITS = 3  # of a share: two gains that are shown as one are the same for whoever reads them
_UNEVEN = 1.2  # times what the average rank has: a job that gains more has ranks that differ


def findings_of(diagnosis: Diagnosis, outline: Outline, rules: Sequence[Rule] | None = None) -> Findings:
    """Shares are of the recorded steps: what recording or other load adds to them is in nobody's account."""
    rules = rules_for(predicted=diagnosis.predicted) if rules is None else rules
    if diagnosis.jobs > 1:
        rules = ()  # the average step of several jobs is nobody's: no fix gains a share of it
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
        praise=() if diagnosis.jobs > 1 else tuple(praise_of(diagnosis, outline, verdict)),
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
    """Sort by gain, the largest first, by the share that is shown; last is what nobody should act on."""
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
    """Add the transfer that ends with it to its own gain; waiting for late ranks only moves elsewhere."""
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
        line = RankAxis.of([rank.window_ns for rank in ranks])
        begin_ns = line.moments([rank.ledger.start_ns for rank in ranks])
        end_ns = line.moments([rank.ledger.end_ns for rank in ranks])
        in_steps = Intervals.union_of(begin_ns, end_ns)
        alone = line.joined(claims[places]) & line.joined([rank.exposed for rank in ranks]) & in_steps
        rest = alone - line.joined(claimed[places])
        _add_matches(total, matched, places, (line, begin_ns, end_ns), (alone, rest), diagnosis)
        total.claimed_pieces.append(gain.pieces_of(places, line, rest))
        if matched.beside:
            alone |= line.joined(matched.beside[places]) & in_steps
        total.alone_pieces.append(gain.pieces_of(places, line, alone))
    return total


def _add_matches(
    total: Total,
    matched: JobMatch,
    places: slice,
    line_and_steps: tuple[RankAxis, I64, I64],
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
