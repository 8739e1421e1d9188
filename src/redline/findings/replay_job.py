"""Replay the steps of a job with what-ifs that were asked for, and with the cause of each finding gone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from redline.findings.exposed import time_of
from redline.findings.finding import Finding, Findings, GainForecast
from redline.findings.kept_ranks import KeptRank, RankKeeper
from redline.findings.match import matched_rules
from redline.findings.path_parts import PathLabels, coarse_parts_of, labels_of, parts_of
from redline.findings.registry import RULES
from redline.findings.replayed import BesidePath, CriticalPathParts, ReplayedJob, ReplayedScenario
from redline.findings.rule import Rule
from redline.findings.what_if import transfer_gone
from redline.job.read_files import JobOptions
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.digests import work_on_ranks
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.progress import Progress, silent
from redline.replay.changes import Change, Scenario, SpanChange
from redline.replay.critical_path import CriticalPath, critical_path_of, slack_ns
from redline.replay.digest_graph import digest_replay, graph_of_digest
from redline.replay.edges import EdgeKind
from redline.replay.forecast import Forecast, JobReplay, RankReplay, ScenarioReplay, rank_replay
from redline.replay.job_graph import JobGraph
from redline.replay.replay import WaitForEachOtherError
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64, grouped
from redline.timeline.timeline import NONE
from redline.values import dataclass

MOST_RANKS = 256  # that are replayed together
MOST_EDGES = 8_000_000  # of all ranks together
_FIRST = 3  # fixes whose effect together is said
_APART = 0.005  # of the step: ranks that differ by less are shown as one

Take = Callable[[JobGraph, ScenarioReplay], None]
"""Is given each scenario that was asked for, as it was replayed."""

PartsOf = Callable[[CriticalPath, JobGraph, int, bool], CriticalPathParts]
"""Names the parts of a path, of so many steps; or only its accounts."""

_BY_CODE = {rule.code: rule for rule in RULES}
_OF_SPANS: tuple[Change, ...] = (SpanChange(rank=NONE),)


OpenedRank = tuple[RankReplay, PathLabels]
"""The replay of a rank and the names of its pieces, for which its trace is opened again."""


@dataclass(frozen=True, kw_only=True)
class ReplayWork:
    """Done on each rank while its trace is open."""

    asked: tuple[Scenario, ...]
    codes: tuple[str, ...]  # of findings
    ranks: tuple[int, ...]  # by place
    exchanged: Mapping[str, tuple[Intervals, ...]]  # exposed communication that goes with a fix, by place
    waiting: tuple[Intervals, ...]  # in which each rank waited for others
    job_changes: Mapping[str, tuple[Change, ...]]

    def scenarios(self) -> tuple[Scenario, ...]:
        """Scenarios asked for, and the fix of each finding; which spans of a rank a fix is about, its trace says."""
        fixes = (Scenario(name=code, changes=self.job_changes.get(code, _OF_SPANS)) for code in self.codes)
        return (*self.asked, *fixes)

    def __call__(self, place: int, analysis: RankAnalysis) -> OpenedRank:
        rules = [_BY_CODE[code] for code in self.codes if code not in self.job_changes]
        claims = {rule.code: matched.claim for rule, matched in matched_rules(analysis, rules)}
        return self.on_kept(place, KeptRank(analysis=analysis, claims=claims))

    def on_kept(self, place: int, rank: KeptRank) -> OpenedRank:
        analysis, timeline = rank.analysis, rank.analysis.timeline
        if timeline.rank != self.ranks[place]:  # told by the other ranks of the job
            analysis = replace(analysis, timeline=replace(timeline, rank=self.ranks[place]))
        fixes = tuple(
            Scenario(name=code, changes=self._changes(code, place, analysis, rank.claims.get(code)))
            for code in self.codes
        )
        return rank_replay(analysis.timeline, (*self.asked, *fixes)), labels_of(analysis)

    def _changes(self, code: str, place: int, analysis: RankAnalysis, claim: Intervals | None) -> tuple[Change, ...]:
        if code in self.job_changes:
            return self.job_changes[code]
        exchanged = self.exchanged.get(code)
        gone = () if exchanged is None else transfer_gone(analysis, exchanged[place], self.waiting[place])
        if claim is not None and len(claim):
            return _one_for_each((*_BY_CODE[code].what_if(analysis, claim), *gone))
        return gone or (SpanChange(rank=self.ranks[place]),)


def replay_job(  # noqa: PLR0913 (where the traces are, how they are read again, and who looks at the replay)
    diagnosis: Diagnosis,
    findings: Findings,
    asked: Sequence[Scenario],
    *,
    kept: RankKeeper,
    files: Sequence[Path],
    machine: str | None,
    options: JobOptions,
    progress: Progress = silent,
    take: Take | None = None,
) -> ReplayedJob:
    """With the ranks that were kept; else it opens the traces again. Where that is not possible, by their digests."""

    def declined(why_not: str) -> ReplayedJob:
        return ReplayedJob(declined=why_not, asked=_declined(asked, why_not, diagnosis))

    if diagnosis.predicted:
        return declined("a plan draws the host as a gap, so a replay of it tells no more than the plan")
    work = _work(diagnosis, findings, asked)
    opened: Mapping[int, OpenedRank] = {}
    why_coarse = too_large(len(diagnosis.ranks), 0)
    if not why_coarse:
        opened = {place: work.on_kept(place, rank) for place, rank in kept.taken(diagnosis.ranks).items()}
        if len(opened) < len(diagnosis.ranks):
            opened = work_on_ranks(diagnosis.ranks, files, machine, options, work, progress)
        why_coarse = _why_coarse(opened, len(diagnosis.ranks))
    if why_coarse and take is not None:
        return declined(why_coarse)
    try:
        if why_coarse:
            return _replayed_digests(diagnosis, findings, work, why_coarse)
        return _replayed_traces(diagnosis, findings, work, [opened[place] for place in range(len(opened))], take)
    except WaitForEachOtherError:
        return declined("exchanges of its ranks are recorded as if each had waited for the other")


def _why_coarse(opened: Mapping[int, OpenedRank], ranks: int) -> str:
    if len(opened) < ranks:
        return f"the traces of {ranks - len(opened):,} of {ranks:,} ranks are not at hand, only their digests"
    return too_large(ranks, sum(len(replay.graph.edges) for replay, _ in opened.values()))


def _replayed_traces(
    diagnosis: Diagnosis, findings: Findings, work: ReplayWork, opened: Sequence[OpenedRank], take: Take | None
) -> ReplayedJob:
    labels = [labels for _, labels in opened]

    def parts(path: CriticalPath, job: JobGraph, steps: int, only_accounts: bool) -> CriticalPathParts:
        return parts_of(path, job, labels, steps, only_accounts=only_accounts)

    replaying = _Replaying(diagnosis, findings, work, [replay for replay, _ in opened], parts, take)
    replayed = replaying.replayed()
    if replayed.path is None:
        return replayed
    beside = beside_path(replaying.replay, labels, replaying.steps)
    return replace(replayed, path=replace(replayed.path, beside=beside))


def _replayed_digests(diagnosis: Diagnosis, findings: Findings, work: ReplayWork, why: str) -> ReplayedJob:
    """By phases and exchanges: of findings, those that all ranks tell together."""
    work = replace(work, codes=tuple(code for code in work.codes if code in work.job_changes))
    graphs = [graph_of_digest(digest) for digest in diagnosis.ranks]
    scenarios = work.scenarios()
    ranks = [digest_replay(*rank, scenarios) for rank in zip(diagnosis.ranks, graphs, strict=True)]

    def parts(path: CriticalPath, job: JobGraph, steps: int, _: bool) -> CriticalPathParts:
        return coarse_parts_of(path, job, graphs, steps)

    return replace(_Replaying(diagnosis, findings, work, ranks, parts).replayed(), coarse=why)


def forecasts_of(findings: Findings, replayed: ReplayedJob) -> dict[str, GainForecast]:
    """By code; none where nothing was replayed, which is said once. A fix gains at most what its finding can gain
    alone: what the replay says beyond that is cut."""
    if replayed.declined:
        return {}
    return {finding.code: _forecast(finding, _BY_CODE[finding.code], replayed) for finding in findings.findings}


def _forecast(finding: Finding, rule: Rule, replayed: ReplayedJob) -> GainForecast:
    fix = replayed.fixes.get(finding.code)
    declined = rule.no_replay or _why_no_fix(fix, replayed.coarse)
    if declined or fix is None:
        return GainForecast(gain_ns=0.0, replayed_ns=0.0, declined=declined)
    replayed_ns = fix.gain_share * finding.step_ns
    return GainForecast(gain_ns=min(max(replayed_ns, 0.0), finding.alone_ns), replayed_ns=replayed_ns)


def _why_no_fix(fix: ReplayedScenario | None, coarse: str) -> str:
    """A fix is told by single spans of ranks, so that which of them are missing says nothing to people."""
    if fix is None:
        return "its forecast needs what digests do not hold" if coarse else "it was not replayed"
    return "nothing that the replay can change" if fix.declined.startswith("nothing in the trace") else fix.declined


def too_large(ranks: int, edges: int) -> str:
    """Why a job of so many ranks, with so many edges in their graph, is not replayed; "" where it is."""
    if ranks > MOST_RANKS:
        return (
            f"the job has {ranks} ranks, and at most {MOST_RANKS} are replayed together: "
            "give the traces of fewer, such as some of each kind"
        )
    if edges > MOST_EDGES:
        return (
            f"the graph of this job has {edges:,} edges, and at most {MOST_EDGES:,} are replayed: "
            "give the traces of fewer ranks, or of fewer steps"
        )
    return ""


def _declined(asked: Sequence[Scenario], why: str, diagnosis: Diagnosis) -> tuple[ReplayedScenario, ...]:
    step_ns = float(diagnosis.in_steps.sum()) / max(diagnosis.rank_steps, 1)
    return tuple(
        ReplayedScenario(name=scenario.name, step_ns=step_ns, after_ns=step_ns, declined=why) for scenario in asked
    )


def _work(diagnosis: Diagnosis, findings: Findings, asked: Sequence[Scenario]) -> ReplayWork:
    codes = tuple(finding.code for finding in findings.findings if not _BY_CODE[finding.code].no_replay)
    return ReplayWork(
        asked=tuple(asked),
        codes=codes,
        ranks=tuple(rank.origin.rank for rank in diagnosis.ranks),
        exchanged={code: tuple(claims) for code in codes if (claims := _exchanged(code, diagnosis, findings))},
        waiting=tuple(diagnosis.waiting),
        job_changes={
            code: what_if_job(diagnosis) for code in codes if (what_if_job := _BY_CODE[code].what_if_job) is not None
        },
    )


def _exchanged(code: str, diagnosis: Diagnosis, findings: Findings) -> Sequence[Intervals]:
    """The claims of a rule of all ranks; of a rule of single ranks, what ends with its cause."""
    ends = _BY_CODE[code].ends
    if ends is None:
        return findings.claims.get(code, ())
    return [time_of(rank, ends(rank)) for rank in diagnosis.ranks]


def _one_for_each(changes: Sequence[Change]) -> tuple[Change, ...]:
    """One change of spans for each rank, so that all ranks have as many."""
    spans = [change for change in changes if isinstance(change, SpanChange)]
    others = tuple(change for change in changes if not isinstance(change, SpanChange))
    if len(spans) < 2:
        return tuple(changes)
    joined = SpanChange(
        rank=spans[0].rank,
        device_rows=np.concatenate([change.device_rows for change in spans]),
        saved_ns=np.concatenate([change.saved_ns for change in spans]),
        host=spans[0].host,
        waits=np.concatenate([change.waits for change in spans]),
    )
    return (*others, joined)


class _Replaying:
    """All scenarios of a job."""

    def __init__(
        self,
        diagnosis: Diagnosis,
        findings: Findings,
        work: ReplayWork,
        ranks: Sequence[RankReplay],
        parts: PartsOf,
        take: Take | None = None,
    ) -> None:
        self.work, self.ranks, self.parts, self.take = work, ranks, parts, take
        self.alone_ns = {finding.code: finding.alone_ns for finding in findings.findings}
        self.steps = max((len(rank.ledger.start_ns) for rank in diagnosis.ranks), default=0)
        self.step_ns = float(diagnosis.in_steps.sum()) / max(diagnosis.rank_steps, 1)
        self.scenarios = work.scenarios()
        self.replay = JobReplay(ranks, self.scenarios)

    def replayed(self) -> ReplayedJob:
        replays = self.replay.each()
        asked = tuple(self._asked(scenario) for scenario in islice(replays, len(self.work.asked)))
        fixes = {code: self._plain(scenario.forecast) for code, scenario in zip(self.work.codes, replays, strict=True)}
        first = sorted(
            (code for code in fixes if self._gain_ns(fixes[code]) > 0), key=lambda c: -self._gain_ns(fixes[c])
        )
        explained = [rank.graph.explained for rank in self.ranks]
        return ReplayedJob(
            declined=self.replay.declined,
            starts=sum(of_rank.starts for of_rank in explained),
            unexplained=sum(of_rank.unexplained for of_rank in explained),
            rule_error=self.replay.error_by_rules,
            ranks=len(self.ranks),
            path=None if self.replay.declined else self._path(),
            asked=asked,
            fixes=fixes,
            first_fixes=tuple(first[:_FIRST]),
            after_first=self._together(first[:_FIRST]) if len(first) > 1 else None,
        )

    def _gain_ns(self, fix: ReplayedScenario) -> float:
        """At most what its finding can gain alone."""
        return min(fix.step_ns - fix.after_ns, self.alone_ns[fix.name])

    def _plain(self, forecast: Forecast) -> ReplayedScenario:
        return ReplayedScenario(
            name=forecast.scenario.name,
            step_ns=self.step_ns,
            after_ns=self.step_ns * (1 - forecast.gain_share),
            declined=forecast.declined,
        )

    def _asked(self, scenario: ScenarioReplay) -> ReplayedScenario:
        if self.take is not None:
            self.take(self.replay.job, scenario)
        return self._scenario(scenario)

    def _scenario(self, scenario: ScenarioReplay) -> ReplayedScenario:
        """With what limits afterwards."""
        plain = self._plain(scenario.forecast)
        if scenario.forecast.declined:
            return plain
        after = self._path(scenario)
        share = after.accounts[0].share if after.accounts else 0.0
        return replace(plain, limit=after.limit, limit_share=share, ranks=tuple(self._ranks(scenario.times_ns)))

    def _ranks(self, times_ns: I64) -> Iterator[tuple[int, float, float]]:
        """Where the ranks differ."""
        rows = []
        for rank, points in zip(self.ranks, self.replay.job.step_points(), strict=True):
            before, after = (
                float((times[points[:, 1]] - times[points[:, 0]]).mean()) if len(points) else 0.0
                for times in (self.replay.job.time_ns, times_ns)
            )
            rows.append((rank.graph.rank, before, after))
        gains = [before - after for _, before, after in rows]
        if max(gains) - min(gains) > _APART * self.step_ns:
            yield from rows

    def _together(self, codes: Sequence[str]) -> ReplayedScenario:
        """The first fixes at once."""
        numbers = [number for number, scenario in enumerate(self.scenarios) if scenario.name in codes]
        changes = tuple(change for number in numbers for change in self.scenarios[number].changes)
        scenario = Scenario(name=", ".join(codes), changes=changes)
        together = self._scenario(self.replay.together(scenario, numbers))
        most_ns = sum(self.alone_ns[code] for code in codes)
        return replace(together, after_ns=max(together.after_ns, self.step_ns - most_ns))

    def _path(self, scenario: ScenarioReplay | None = None) -> CriticalPathParts:
        """The path of the steps as they were measured, or in a scenario, of which no more than the accounts is told."""
        path = critical_path_of(self.replay, scenario)
        return self.parts(path, self.replay.job, self.steps, scenario is not None)


MOST_BESIDE = 5


def beside_path(replay: JobReplay, labels: Sequence[PathLabels], steps: int) -> tuple[BesidePath, ...]:
    """The most time first; of the average step, over all ranks. None on a CPU, where operators are on threads."""
    if not any(map(len, replay.job.step_points())):
        return ()  # no step that anything could end later than
    edges, slack = replay.job.edges, slack_ns(replay)
    rank_of_point = replay.job.rank_of_point()
    is_work = np.isin(edges.kind, (EdgeKind.DEVICE, EdgeKind.TRANSFER)) & (edges.row != NONE)
    work = np.flatnonzero(is_work & (edges.delay_ns > 0) & (slack[edges.head] > 0))
    work = work[rank_of_point[edges.tail[work]] == rank_of_point[edges.head[work]]]  # not from where ranks meet
    found: dict[str, tuple[int, int]] = {}
    for rank, here in grouped(rank_of_point[edges.head[work]]):
        names: I64 = labels[rank].row_name[edges.row[work[here]]].astype(np.int64)
        for name, of_name in grouped(names):
            pieces = work[here[of_name]]
            what = labels[rank].texts[name]
            time_ns, least_ns = found.get(what, (0, 1 << 62))
            own_slack_ns = int(slack[edges.head[pieces]].min())
            found[what] = time_ns + int(edges.delay_ns[pieces].sum()), min(least_ns, own_slack_ns)
    most = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))[:MOST_BESIDE]
    return tuple(
        BesidePath(what=what, time_ns=time_ns / max(steps, 1), slack_ns=least_ns) for what, (time_ns, least_ns) in most
    )
