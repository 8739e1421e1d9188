"""How long the steps of a job take in each scenario, all of them replayed at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from redline.replay.changes import Scenario, SpanChange, TimeChange
from redline.replay.edges import EdgeKind
from redline.replay.job_graph import JobGraph, job_graph_of
from redline.replay.like_others import delays_like_others
from redline.replay.rank_graph import RankGraph, graph_of
from redline.replay.replay import GONE_NS, ReplayPlan, plan_of, replayed
from redline.replay.what_changes import GONE, RankChanges, changes_on
from redline.timeline.table import I64, Column
from redline.timeline.timeline import Timeline

Floats = npt.NDArray[np.float64]
_AT_ONCE = 64
MOST_ERROR = 0.1  # of the steps when replayed by rules alone; beyond it the graph does not explain them
MOST_UNEXPLAINED = 0.1  # share of device starts that nothing explains


@dataclass(frozen=True, kw_only=True)
class RankReplay:
    """What the replay of a job needs of one rank. Made where the trace is open, and small."""

    graph: RankGraph
    changes: tuple[RankChanges, ...]  # of each scenario


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The steps of a job in a scenario. Where it is declined, the times are those that were measured."""

    scenario: Scenario
    step_ns: I64  # of each step: from the first rank's beginning to the last rank's end
    total_ns: int  # of all steps, from the beginning of the first to the end of the last
    measured_step_ns: I64
    measured_total_ns: int
    matched: int  # how many pieces of work, waits and stretches of the host the changes apply to
    declined: str = ""  # why there is none

    @property
    def gain_ns(self) -> int:
        return self.measured_total_ns - self.total_ns

    @property
    def gain_share(self) -> float:
        """Of the time of all steps; negative where the scenario is slower."""
        return self.gain_ns / max(self.measured_total_ns, 1)


def rank_replay(timeline: Timeline, scenarios: Sequence[Scenario] = ()) -> RankReplay:
    graph = graph_of(timeline)
    return RankReplay(graph=graph, changes=changes_on(timeline, graph, scenarios))


def forecasts(ranks: Sequence[RankReplay], scenarios: Sequence[Scenario]) -> tuple[Forecast, ...]:
    """One for each scenario. The ranks are those of one job, in order, each with the changes of these scenarios."""
    return JobReplay(ranks, scenarios).forecasts()


class JobReplay:
    """The ranks of a job, joined, with what each scenario changes."""

    def __init__(self, ranks: Sequence[RankReplay], scenarios: Sequence[Scenario]) -> None:
        self._ranks, self.scenarios = ranks, tuple(scenarios)
        self.job: JobGraph = job_graph_of([rank.graph for rank in ranks])

    @cached_property
    def plan(self) -> ReplayPlan:
        return plan_of(self.job.edges, len(self.job))

    @cached_property
    def error_by_rules(self) -> float:
        """How far off the steps are when replayed by the rules of the trace alone, as a share of them."""
        times_ns = replayed(self.job.edges, self.plan, self.job.by_rule_ns[:, None], 0)[:, 0]
        measured_ns = self._total_ns(self.job.time_ns)
        return (self._total_ns(times_ns) - measured_ns) / max(measured_ns, 1)

    @cached_property
    def declined(self) -> str:
        """Why no scenario of this job is replayed, or nothing."""
        starts = sum(rank.graph.explained.starts for rank in self._ranks)
        unexplained = sum(rank.graph.explained.unexplained for rank in self._ranks)
        if unexplained > MOST_UNEXPLAINED * starts:
            return f"nothing in the trace explains when {unexplained:,} of {starts:,} pieces of device work began"
        if abs(self.error_by_rules) > MOST_ERROR:
            return (
                "the recorded dependencies do not explain the steps: replayed by them alone, these take "
                f"{1 + self.error_by_rules:.0%} of their time"
            )
        return ""

    def forecasts(self) -> tuple[Forecast, ...]:
        made: list[Forecast] = []
        for first in range(0, len(self.scenarios), _AT_ONCE):
            made += self._of_some(range(first, min(first + _AT_ONCE, len(self.scenarios))))
        return tuple(made)

    def times_ns(self, scenario: int) -> I64:
        """When each point of the job comes in a scenario."""
        return replayed(self.job.edges, self.plan, self.delays_ns(scenario)[:, None], 0)[:, 0]

    def _of_some(self, numbers: range) -> list[Forecast]:
        refused = {number: why for number in numbers if (why := self.declined or self._nothing_to_change(number))}
        open_numbers = [number for number in numbers if number not in refused]
        times_ns = np.empty((len(self.job), 0), np.int64)
        if open_numbers:
            delays_ns = np.stack([self.delays_ns(number) for number in open_numbers], axis=1)
            times_ns = replayed(self.job.edges, self.plan, delays_ns, 0)
        column = {number: place for place, number in enumerate(open_numbers)}
        return [
            self._forecast(
                number,
                times_ns[:, column[number]] if number in column else self.job.time_ns,
                refused.get(number, ""),
            )
            for number in numbers
        ]

    def _forecast(self, number: int, times_ns: I64, declined: str) -> Forecast:
        return Forecast(
            scenario=self.scenarios[number],
            step_ns=self._steps_ns(times_ns),
            total_ns=self._total_ns(times_ns),
            measured_step_ns=self._steps_ns(self.job.time_ns),
            measured_total_ns=self._total_ns(self.job.time_ns),
            matched=sum(sum(rank.changes[number].matched) for rank in self._ranks),
            declined=declined,
        )

    def _nothing_to_change(self, number: int) -> str:
        """Which change of a scenario applies to nothing, or ""."""
        scenario = self.scenarios[number]
        for place, change in enumerate(scenario.changes):
            matched = sum(rank.changes[number].matched[place] for rank in self._ranks)
            if not matched:
                return f"nothing in the trace is changed by {_named(change)}"
            if isinstance(change, TimeChange) and change.like_others and len(self._ranks) < 2:
                return "there are no other ranks, of which the median could be taken"
        return ""

    # --- delays ---

    def delays_ns(self, number: int) -> I64:
        """Of each edge in a scenario."""
        measured_ns = self.job.edges.delay_ns
        delays_ns = measured_ns.astype(np.float64)
        alike = [index for index, rank in enumerate(self._ranks) if rank.changes[number].like_others]
        if alike:
            delays_ns = delays_like_others(self.job, alike)
        late = np.array([rank.changes[number].late_start for rank in self._ranks])
        delays_ns[self.job.begin_edge] *= late
        for rank, places in zip(self._ranks, self.job.place_of_edge, strict=True):
            for change in rank.changes[number].steps:
                edges = places[change.edge]
                kept_ns = np.minimum(change.kept_ns, np.maximum(measured_ns[edges], 0))
                ratio = _ratio(measured_ns[edges], kept_ns, change.factor)
                delays_ns[edges] = np.where(change.factor == GONE, GONE_NS, delays_ns[edges] * ratio)
        self._share_transfers(delays_ns)
        return np.where(delays_ns <= GONE_NS / 2, GONE_NS, np.rint(delays_ns)).astype(np.int64)

    def _share_transfers(self, delays_ns: Floats) -> None:
        """What changes a rank's own time in an exchange changes the transfer after the last has come as well."""
        edges = self.job.edges
        heads = edges.head
        first_meeting = int(self.job.first_point[-1])
        own = np.flatnonzero((edges.kind == EdgeKind.TRANSFER) & (edges.tail < first_meeting))
        shared = np.flatnonzero((edges.kind == EdgeKind.TRANSFER) & (edges.tail >= first_meeting))
        if not len(shared):
            return
        ratio = np.ones(len(self.job))
        measured_ns = np.maximum(edges.delay_ns[own], 1)
        ratio[heads[own]] = np.clip(delays_ns[own], 0, None) / measured_ns
        delays_ns[shared] *= ratio[heads[shared]]

    # --- steps ---

    def _steps_ns(self, times_ns: I64) -> I64:
        starts, ends, _ = self.borders(times_ns)
        return ends - starts

    def _total_ns(self, times_ns: I64) -> int:
        starts, ends, _ = self.borders(times_ns)
        return int(ends.max() - starts.min()) if len(starts) else 0

    def borders(self, times_ns: I64) -> tuple[I64, I64, I64]:
        """Of each step that all ranks have: when the first rank begins it, when the last ends it, and that point."""
        steps = self.job.step_points()
        number = min(map(len, steps))
        points = np.stack([of_rank[:number] for of_rank in steps])
        ends_ns = times_ns[points[:, :, 1]]
        last = points[ends_ns.argmax(axis=0), np.arange(number), 1]
        return times_ns[points[:, :, 0]].min(axis=0), ends_ns.max(axis=0), last


def _ratio(measured_ns: I64, kept_ns: I64, factor: Column) -> Floats:
    """What becomes of delays of which a part is kept."""
    measured = np.maximum(measured_ns, 1).astype(np.float64)
    return np.where(measured_ns > 0, (kept_ns + (measured - kept_ns) * factor) / measured, 1.0)


def _named(change: TimeChange | SpanChange) -> str:
    if isinstance(change, SpanChange):
        return f"what was found on rank {change.rank}"
    return f"{change.target}({change.pattern})" if change.pattern else str(change.target)
