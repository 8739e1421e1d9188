"""What a window is in metrics: names, labels and values, the same for every export."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from redline.ledger.accounts import Account
from redline.watch.alarm import AlarmKind
from redline.watch.job_monitor import WatchedWindow

PREFIX = "redline"
_S = 1e-9  # per ns


@dataclass(frozen=True, kw_only=True)
class MetricSample:
    """One value, and what it is of."""

    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class WindowMetric:
    """A gauge. The end of its name is its unit, as Prometheus has it: seconds, ratio; without one it is a count."""

    name: str
    help: str
    samples: tuple[MetricSample, ...]


@dataclass(frozen=True, kw_only=True)
class ExportedWindow:
    """The metrics of one window of a run."""

    run: str
    number: int  # of the window in the series, from 1; goes on when the job is started again
    start_ns: int  # since 1970
    metrics: tuple[WindowMetric, ...]

    def flat(self) -> dict[str, float]:
        """By one name each, for programs without labels: redline/account_seconds/input."""
        return {
            "/".join([PREFIX, metric.name, *sample.labels.values()]): sample.value
            for metric in self.metrics
            for sample in metric.samples
        }


class WindowMetrics:
    """Counts what goes on from window to window."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._windows = 0
        self._alarms: Counter[AlarmKind] = Counter(dict.fromkeys(AlarmKind, 0))

    def of(self, window: WatchedWindow) -> ExportedWindow:
        self._windows += 1
        self._alarms.update(alarm.kind for alarm in window.alarms)
        return ExportedWindow(
            run=self._run,
            number=self._windows,
            start_ns=window.figures.start_ns,
            metrics=tuple(metric for metric in self._metrics(window) if metric.samples),
        )

    def _metrics(self, window: WatchedWindow) -> Iterator[WindowMetric]:
        figures = window.figures
        yield _single("windows", "Windows read so far.", self._windows)
        yield _single("window_start_timestamp_seconds", "When the window began, since 1970.", figures.start_ns * _S)
        yield _single("step_seconds", "Median step of the window.", figures.step_ns * _S)
        if window.usual_step_ns is not None:
            yield _single(
                "step_usual_seconds",
                "Median step of the windows before, since the last change.",
                window.usual_step_ns * _S,
            )
        yield _labelled(
            "account_seconds",
            "Accounts of the average step.",
            "account",
            {account.replace(" ", "_"): figures.accounts[account] * _S for account in Account},
        )
        yield _labelled(
            "finding_gain_ratio",
            "The most that mending a finding alone gains, of the step.",
            "finding",
            {finding.code: finding.gain_share for finding in figures.findings},
        )
        yield _labelled(
            "rank_wait_ratio",
            "What an average other rank waited for this rank, of the step.",
            "rank",
            {str(late.rank): late.wait_share for late in figures.late},
        )
        yield _single("ranks", "Ranks that left a digest.", len(figures.ranks))
        yield _single("silent_ranks", "Ranks of the job that left no digest.", len(figures.silent))
        yield _labelled("alarms", "Alarms so far.", "kind", {str(kind): count for kind, count in self._alarms.items()})


def _single(name: str, text: str, value: float) -> WindowMetric:
    return WindowMetric(name=name, help=text, samples=(MetricSample(value=float(value), labels={}),))


def _labelled(name: str, text: str, label: str, values: Mapping[str, float]) -> WindowMetric:
    samples = tuple(MetricSample(value=float(value), labels={label: key}) for key, value in values.items())
    return WindowMetric(name=name, help=text, samples=samples)
