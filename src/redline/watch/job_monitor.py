"""From the windows of a job, in order, to what changed in it: the same windows always give the same alarms."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from redline.watch.alarm import Alarm, AlarmKind
from redline.watch.change_detectors import LEARNING, ChangeDetectors, DetectedChanges
from redline.watch.job_series import COMMUNICATION, INPUT, STEP, JobSeries
from redline.watch.late_ranks import LateRanks
from redline.watch.window_figures import WindowFigures

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
