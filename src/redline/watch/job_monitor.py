"""From the windows of a job, in order, to what changed in it: the same windows always give the same alarms."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from redline.ledger.accounts import Account
from redline.watch.change_detectors import LEARNING, ChangeDetectors, DetectedChanges, Floats
from redline.watch.window_figures import WindowFigures

STEP, INPUT, COMMUNICATION = range(3)  # places of the series of the job
# Noise of a series is at least this, and a drift of it at least that.
_STEP_FLOORS = 0.007, 0.10  # of log time: a wave of a day is no drift
_SHARE_FLOORS = 0.004, 0.05  # of the step
_RANK_FLOORS = 0.004, 0.05  # of log time beside other ranks, which share the wave of a day


class JobSeries:
    """Which series are whose. Input and communication are in units of the first steps: of today's step they would fall
    when anything else grows."""

    def __init__(self, detectors: ChangeDetectors, unit_ns: float) -> None:
        self._detectors, self._unit_ns = detectors, unit_ns
        detectors.add_series(1, *_STEP_FLOORS)
        detectors.add_series(2, *_SHARE_FLOORS)
        self.rank_places: dict[int, int] = {}
        self.node_places: dict[str, int] = {}

    def values(self, figures: WindowFigures) -> Floats:
        """One for each series, NaN where this window has none."""
        ranks, beside = figures.ranks.tolist(), beside_the_others(figures)
        members = ranks_by_node(figures)
        self._add(ranks, members)
        values = np.full(len(self._detectors), np.nan)
        values[STEP] = np.log(max(figures.step_ns, 1.0))
        values[INPUT] = figures.accounts[Account.INPUT] / self._unit_ns
        values[COMMUNICATION] = figures.accounts[Account.TRANSFER] / self._unit_ns
        values[[self.rank_places[rank] for rank in ranks]] = beside
        for host, places in members.items():
            values[self.node_places[host]] = np.sort(beside[places])[(len(places) - 1) // 2]
        return values

    def _add(self, ranks: Iterable[int], hosts: Iterable[str]) -> None:
        new_ranks = [rank for rank in ranks if rank not in self.rank_places]
        self.rank_places.update(zip(new_ranks, self._new(len(new_ranks)), strict=True))
        new_hosts = [host for host in hosts if host not in self.node_places]
        self.node_places.update(zip(new_hosts, self._new(len(new_hosts)), strict=True))

    def _new(self, count: int) -> Sequence[int]:
        return self._detectors.add_series(count, *_RANK_FLOORS) if count else ()


def beside_the_others(figures: WindowFigures) -> Floats:
    """The logarithm of how long each rank works by itself, against the median rank: what all do more of, none is late
    by. A rank that hardly works by itself is not told from one that works a little more."""
    own = np.log(np.maximum(figures.own_ns, 0.05 * max(figures.step_ns, 1.0)))
    beside: Floats = own - np.median(own)
    return beside


def ranks_by_node(figures: WindowFigures) -> dict[str, Sequence[int]]:
    """Places of the ranks of each node; none where the job has one node, or one rank on each."""
    members: defaultdict[str, list[int]] = defaultdict(list)
    for place, host in enumerate(figures.hosts):
        members[host].append(place)
    members.pop("", None)
    return {host: places for host, places in members.items() if len(places) > 1} if len(members) > 1 else {}


class AlarmKind(StrEnum):
    """What changed; the value is the code in JSON."""

    STEP_SLOWER = "step_slower"
    STEP_FASTER = "step_faster"
    INPUT_GREW = "input_grew"
    INPUT_RECOVERED = "input_recovered"
    COMMUNICATION_GREW = "communication_grew"
    COMMUNICATION_RECOVERED = "communication_recovered"
    RANK_LATE = "rank_late"
    RANK_RECOVERED = "rank_recovered"
    NODE_LATE = "node_late"
    NODE_RECOVERED = "node_recovered"
    RANK_SILENT = "rank_silent"
    RANK_RETURNED = "rank_returned"
    WORLD_CHANGED = "world_changed"


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """One change, said in the window in which it became certain."""

    kind: AlarmKind
    since: str = ""  # the first window after the change, as far as it is told; "" for a drift
    is_drift: bool = False
    change_share: float = 0.0  # signed: of the step, or of the time that a rank works by itself
    ranks: tuple[int, ...] = ()
    host: str = ""
    before: int = 0  # ranks of the job, where their number changed
    after: int = 0


Since = Callable[[DetectedChanges, int], str]
_MOST_OF_A_NODE = 0.75
_KINDS = {
    "rank": (AlarmKind.RANK_LATE, AlarmKind.RANK_RECOVERED),
    "node": (AlarmKind.NODE_LATE, AlarmKind.NODE_RECOVERED),
}


class LateRanks:
    """Remembers who is late: that others are faster than they were is no alarm."""

    def __init__(self) -> None:
        self._late: set[int] = set()  # places of series

    def alarms(
        self,
        changes: DetectedChanges,
        figures: WindowFigures,
        series: JobSeries,
        detectors: ChangeDetectors,
        since: Since,
    ) -> Iterator[Alarm]:
        if not changes.changed[3:].any():
            return
        ranks, members = figures.ranks.tolist(), ranks_by_node(figures)
        of_nodes: set[int] = set()
        for host, places in members.items():
            own = [series.rank_places[ranks[place]] for place in places]
            node = series.node_places[host]
            for sign in (1, -1):
                moved = changes.changed & (np.sign(changes.size) == sign)
                if not (moved[node] or moved[own].sum() >= _MOST_OF_A_NODE * len(own)):
                    continue
                of_nodes.update(own)
                named = tuple(ranks[place] for place in places)
                # The node itself where it changed, else the first of its ranks that did.
                strongest = next(place for place in (node, *own) if moved[place])
                yield from self._said("node", node, changes, strongest, since, named, host)
                _start_again(detectors, [node, *own], changes)
        for rank, host in zip(ranks, figures.hosts, strict=True):
            place = series.rank_places[rank]
            if changes.changed[place] and place not in of_nodes:
                yield from self._said("rank", place, changes, place, since, (rank,), host)

    def _said(
        self,
        what: str,
        place: int,
        changes: DetectedChanges,
        strongest: int,
        since: Since,
        ranks: tuple[int, ...],
        host: str,
    ) -> Iterator[Alarm]:
        size = float(changes.size[strongest])
        late, recovered = _KINDS[what]
        if size < 0 and place not in self._late:
            return
        (self._late.add if size > 0 else self._late.discard)(place)
        first = since(changes, strongest)
        yield Alarm(
            kind=late if size > 0 else recovered,
            since=first,
            is_drift=not first,
            change_share=float(np.expm1(size)),
            ranks=ranks,
            host=host,
        )


def _start_again(detectors: ChangeDetectors, places: list[int], changes: DetectedChanges) -> None:
    """What was said of a node is not said of its ranks in the windows that follow."""
    which = np.zeros(len(detectors), bool)
    which[places] = True
    windows = np.full(len(detectors), max(int(changes.windows[places].max()), 1))
    detectors.start_again(which, windows)


_NAMES_KEPT = 16
_STEP_KINDS = (AlarmKind.STEP_SLOWER, AlarmKind.STEP_FASTER)
_SHARE_KINDS = {
    INPUT: (AlarmKind.INPUT_GREW, AlarmKind.INPUT_RECOVERED),
    COMMUNICATION: (AlarmKind.COMMUNICATION_GREW, AlarmKind.COMMUNICATION_RECOVERED),
}


@dataclass(frozen=True, kw_only=True)
class WatchedWindow:
    """A window and what is said of it."""

    figures: WindowFigures
    alarms: tuple[Alarm, ...]
    usual_step_ns: float | None  # of the windows before, since the last change; None while the job is learned
    smallest_share: float | None  # the smallest jump of the step that three windows tell; None while it is learned
    to_learn: int = 0  # windows until anything is tested
    has_learned: bool = False  # just now: this is the first window that is tested


class JobMonitor:
    """Holds what the tests need of the past, and no more however long the job runs."""

    def __init__(self) -> None:
        self._world_size = 0
        self._silent: frozenset[int] = frozenset()
        self._names: deque[str] = deque(maxlen=_NAMES_KEPT)
        self._first: list[WindowFigures] = []
        self._detectors = ChangeDetectors()
        self._series: JobSeries | None = None
        self._late = LateRanks()
        self._grew: set[int] = set()
        self._is_fresh = True

    def _forget(self) -> None:
        self._first, self._detectors, self._series = [], ChangeDetectors(), None
        self._late, self._grew, self._is_fresh = LateRanks(), set(), True

    def add(self, figures: WindowFigures) -> WatchedWindow:
        alarms = [*self._of_world(figures), *self._of_silence(figures)]
        self._names.append(figures.name.text)
        if self._series is None:
            to_learn = self._learn(figures)
            return WatchedWindow(
                figures=figures,
                alarms=tuple(alarms),
                usual_step_ns=None,
                smallest_share=None,
                to_learn=to_learn,
            )
        usual_step_ns = float(np.exp(self._detectors.usual(STEP)))
        smallest_share = self.smallest_shares()["step"]
        changes = self._detectors.update(self._series.values(figures))
        alarms += self._of_job(changes)
        alarms += self._late.alarms(changes, figures, self._series, self._detectors, self._since)
        has_learned, self._is_fresh = self._is_fresh, False
        return WatchedWindow(
            figures=figures,
            alarms=tuple(alarms),
            usual_step_ns=usual_step_ns,
            smallest_share=smallest_share,
            has_learned=has_learned,
        )

    def smallest_shares(self, rank: int | None = None, host: str = "") -> dict[str, float]:
        """The smallest jumps that three windows tell now, of the job's series, of a rank and of a node; and drifts."""
        if self._series is None:
            return {}
        jump, drift = self._detectors.smallest_jump, self._detectors.smallest_drift
        shares = {"step": float(np.expm1(jump(STEP))), "step drift": float(np.expm1(drift(STEP)))}
        shares |= {"input": jump(INPUT), "communication": jump(COMMUNICATION)}
        if rank is not None:
            place = self._series.rank_places[rank]
            shares |= {"rank": float(np.expm1(jump(place))), "rank drift": float(np.expm1(drift(place)))}
        if host:
            shares["node"] = float(np.expm1(jump(self._series.node_places[host])))
        return shares

    def _learn(self, figures: WindowFigures) -> int:
        """How many windows it still takes."""
        self._first.append(figures)
        to_learn = LEARNING - len(self._first)
        if to_learn == 0:
            self._series = JobSeries(self._detectors, float(np.median([window.step_ns for window in self._first])))
            for window in self._first:
                self._detectors.update(self._series.values(window))
            self._first = []
        return to_learn

    def _of_world(self, figures: WindowFigures) -> Iterator[Alarm]:
        """A job of another size is another job: all is learned again."""
        before, self._world_size = self._world_size, figures.world_size
        if before and before != figures.world_size:
            self._forget()
            self._silent = frozenset()
            yield Alarm(kind=AlarmKind.WORLD_CHANGED, before=before, after=figures.world_size)

    def _of_silence(self, figures: WindowFigures) -> Iterator[Alarm]:
        """No statistics: a digest is there or not."""
        before, self._silent = self._silent, frozenset(figures.silent)
        for kind, ranks in (
            (AlarmKind.RANK_SILENT, self._silent - before),
            (AlarmKind.RANK_RETURNED, before - self._silent),
        ):
            if ranks:
                yield Alarm(kind=kind, since=figures.name.text, ranks=tuple(sorted(ranks)))

    def _of_job(self, changes: DetectedChanges) -> Iterator[Alarm]:
        if changes.changed[STEP]:
            kind = _STEP_KINDS[int(changes.size[STEP] < 0)]
            yield self._alarm(kind, changes, STEP, float(np.expm1(changes.size[STEP])))
        for series, (grew, recovered) in _SHARE_KINDS.items():
            if not changes.changed[series]:
                continue
            size = float(changes.size[series])
            if size > 0:
                self._grew.add(series)
                yield self._alarm(grew, changes, series, size)
            elif series in self._grew:  # that there is less than ever is no alarm
                self._grew.discard(series)
                yield self._alarm(recovered, changes, series, size)

    def _alarm(self, kind: AlarmKind, changes: DetectedChanges, series: int, share: float) -> Alarm:
        since = self._since(changes, series)
        return Alarm(kind=kind, since=since, is_drift=not since, change_share=share)

    def _since(self, changes: DetectedChanges, series: int) -> str:
        """The first window after a jump; a drift has none."""
        if changes.drifted[series]:
            return ""
        return self._names[max(len(self._names) - int(changes.windows[series]), 0)]
