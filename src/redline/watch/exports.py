"""Windows as metrics for programs that draw and alert: their names, the formats, and what happens where one fails."""

import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import redline
from redline.artifacts import write_atomic
from redline.artifacts.masking import masked
from redline.errors import OutputError, UsageError, first_line
from redline.ledger.accounts import Account
from redline.watch.job_monitor import AlarmKind, WatchedWindow

PREFIX = "redline"
_S = 1e-9  # per ns


@dataclass(frozen=True, kw_only=True)
class WindowMetric:
    """A gauge. The end of its name is its unit, as Prometheus has it: seconds, ratio; without one it is a count."""

    name: str
    help: str
    values: Mapping[str, float]  # by what each is of; "" where there is one
    label: str = ""  # what it is of


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
            "/".join(filter(None, (PREFIX, metric.name, of))): float(value)
            for metric in self.metrics
            for of, value in metric.values.items()
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
            metrics=tuple(metric for metric in self._metrics(window) if metric.values),
        )

    def _metrics(self, window: WatchedWindow) -> Iterator[WindowMetric]:
        figures = window.figures

        def metric(name: str, text: str, values: float | Mapping[str, float], label: str = "") -> WindowMetric:
            by_label = values if isinstance(values, Mapping) else {"": values}
            return WindowMetric(name=name, help=text, values=by_label, label=label)

        yield metric("windows", "Windows read so far.", self._windows)
        yield metric("window_start_timestamp_seconds", "When the window began, since 1970.", figures.start_ns * _S)
        yield metric("step_seconds", "Median step of the window.", figures.step_ns * _S)
        if window.usual_step_ns is not None:
            text = "Median step of the windows before, since the last change."
            yield metric("step_usual_seconds", text, window.usual_step_ns * _S)
        accounts = {account.replace(" ", "_"): figures.accounts[account] * _S for account in Account}
        yield metric("account_seconds", "Accounts of the average step.", accounts, "account")
        gains = {finding.code: finding.gain_share for finding in figures.findings}
        text = "The most that mending a finding alone gains, of the step."
        yield metric("finding_gain_ratio", text, gains, "finding")
        waits = {str(late.rank): late.wait_share for late in figures.late}
        text = "What an average other rank waited for this rank, of the step."
        yield metric("rank_wait_ratio", text, waits, "rank")
        yield metric("ranks", "Ranks that left a digest.", len(figures.ranks))
        yield metric("silent_ranks", "Ranks of the job that left no digest.", len(figures.silent))
        yield metric("alarms", "Alarms so far.", {str(kind): count for kind, count in self._alarms.items()}, "kind")


_TAG = f"{PREFIX}.run"
_NS_PER_MS = 1_000_000
_MARK = f"{PREFIX}/windows"


class MlflowRun:
    """A run of the experiment `redline`, found again by its tag, so that a watch that is started again goes on."""

    def __init__(self, target: str) -> None:
        from mlflow.entities import Metric
        from mlflow.tracking import MlflowClient

        self._metric: Any = Metric
        self._client: Any = MlflowClient(tracking_uri=target)
        self._run_id = ""
        self._last = 0  # window that it has

    def write(self, window: ExportedWindow) -> None:
        if not self._run_id:
            self._open(window.run)
        if window.number <= self._last:
            return
        time_ms = window.start_ns // _NS_PER_MS
        metrics = [self._metric(name, value, time_ms, window.number) for name, value in window.flat().items()]
        self._client.log_batch(self._run_id, metrics=metrics)
        self._last = window.number

    def close(self) -> None:
        """The run stays open: the job may go on."""

    def _open(self, run: str) -> None:
        experiment = self._client.get_experiment_by_name(PREFIX)
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(PREFIX)
        quoted = run.replace("'", "_")
        known = self._client.search_runs([experiment_id], filter_string=f"tags.`{_TAG}` = '{quoted}'", max_results=1)
        if known:
            self._run_id = known[0].info.run_id
            self._last = max((point.step for point in self._client.get_metric_history(self._run_id, _MARK)), default=0)
        else:
            self._run_id = self._client.create_run(experiment_id, tags={_TAG: quoted}, run_name=run).info.run_id


_ENDING = ".prom"


class OpenMetricsFile:
    """The newest window as a text file for the textfile collector of Prometheus' node exporter.

    OpenMetrics and Prometheus' older format at once: gauges alone, without times, which the collector refuses. Written
    whole for each window, so that the collector never sees a part.
    """

    def __init__(self, target: str) -> None:
        self._path = Path(target)
        if self._path.suffix != _ENDING:
            raise UsageError(f"watch: export openmetrics={target}: the collector reads {_ENDING} files alone")

    def write(self, window: ExportedWindow) -> None:
        with write_atomic(self._path, force=True) as file:
            file.write(openmetrics_text(window).encode())

    def close(self) -> None:
        """Nothing is open."""


def openmetrics_text(window: ExportedWindow) -> str:
    lines = []
    for metric in window.metrics:
        name = f"{PREFIX}_{metric.name}"
        lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} gauge"]
        for of, value in metric.values.items():
            labels = {"run": window.run} | ({metric.label: of} if of else {})  # the run tells several watches apart
            written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            lines.append(f"{name}{{{written}}} {float(value)!r}")
    return "\n".join([*lines, "# EOF"]) + "\n"


def _escaped(text: str) -> str:
    return text.encode(errors="replace").decode().replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


_TIMEOUT_S = 5
_UNITS = {"seconds": "s", "ratio": "1"}


class OtlpMetrics:
    """The data model is the SDK's. Its meters are not used: they would give an old window the time of today."""

    def __init__(self, target: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import export

        self._types: Any = export
        self._exporter = OTLPMetricExporter(endpoint=target, timeout=_TIMEOUT_S)

    def write(self, window: ExportedWindow) -> None:
        result = self._exporter.export(self._data(window), timeout_millis=1000 * _TIMEOUT_S)
        if result is not self._types.MetricExportResult.SUCCESS:
            raise OutputError("the receiver did not take the metrics")

    def close(self) -> None:
        self._exporter.shutdown()

    def _data(self, window: ExportedWindow) -> Any:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        resource = Resource.create({"service.name": PREFIX, f"{PREFIX}.run": window.run})
        metrics = [self._metric(metric, window.start_ns) for metric in window.metrics]
        scope = self._types.ScopeMetrics(
            scope=InstrumentationScope(PREFIX, redline.__version__), metrics=metrics, schema_url=""
        )
        of_resource = self._types.ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")
        return self._types.MetricsData(resource_metrics=[of_resource])

    def _metric(self, metric: WindowMetric, time_ns: int) -> Any:
        points = [
            self._types.NumberDataPoint(
                attributes={metric.label: of} if of else {},
                start_time_unix_nano=time_ns,
                time_unix_nano=time_ns,
                value=float(value),
            )
            for of, value in metric.values.items()
        ]
        return self._types.Metric(
            name=f"{PREFIX}.{metric.name}",
            description=metric.help,
            unit=_UNITS.get(metric.name.rpartition("_")[2], "{count}"),
            data=self._types.Gauge(data_points=points),
        )


_SUFFIX = ".redline-watch"


class TensorBoardScalars:
    """What an earlier watch wrote there is written anew, as all of it follows from the digests."""

    def __init__(self, target: str) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event: Any = Event
        self._summary: Any = Summary
        folder = Path(target)
        for path in folder.glob(f"events.out.tfevents.*{_SUFFIX}"):
            path.unlink()
        self._writer: Any = EventFileWriter(str(folder), filename_suffix=_SUFFIX)

    def write(self, window: ExportedWindow) -> None:
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in window.flat().items()]
        event = self._event(wall_time=window.start_ns / 1e9, step=window.number, summary=self._summary(value=values))
        self._writer.add_event(event)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandbRun:
    """The run begins with the first window. Its id follows from the name of the watched run, so that a watch that is
    started again goes on with it; W&B leaves out steps that it has."""

    def __init__(self, target: str) -> None:
        import wandb

        self._wandb: Any = wandb
        self._project = target
        self._run: Any = None

    def write(self, window: ExportedWindow) -> None:
        if self._run is None:
            self._run = self._wandb.init(
                project=self._project,
                name=window.run,
                id=hashlib.sha256(window.run.encode()).hexdigest()[:16],
                resume="allow",
                settings=self._wandb.Settings(silent=True, console="off"),
            )
        self._run.log(window.flat(), step=window.number)

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


_MOST_WAITING = 512  # windows; the oldest are given up
_PAUSE_S = 30.0  # after a failure, as one may take long


class MetricsExport(Protocol):
    """Takes windows in order. Whatever it raises is said and tried again."""

    def write(self, window: ExportedWindow) -> None: ...

    def close(self) -> None: ...


class RetriedExport:
    """`tell` is given one line when the export begins to fail, and one when it works again."""

    def __init__(
        self,
        name: str,
        export: MetricsExport,
        tell: Callable[[str], None],
        pause_s: float = _PAUSE_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._export, self._tell = name, export, tell
        self._pause_s, self._now_s = pause_s, now_s
        self._waiting: deque[ExportedWindow] = deque(maxlen=_MOST_WAITING)
        self._failed_s: float | None = None

    def write(self, window: ExportedWindow) -> None:
        self._waiting.append(window)
        if self._failed_s is None or self._now_s() - self._failed_s >= self._pause_s:
            self._try()

    def close(self) -> None:
        """With one more try."""
        self._try()
        try:
            self._export.close()
        except Exception as error:  # noqa: BLE001 (libraries of others raise what they like, and the watch is over)
            self._tell(f"export {self._name} did not close: {_reason(error)}")

    def _try(self) -> None:
        while self._waiting:
            try:
                self._export.write(self._waiting[0])
            except Exception as error:  # noqa: BLE001 (libraries of others raise what they like; the watch goes on)
                if self._failed_s is None:
                    self._tell(f"export {self._name} fails and will be tried again: {_reason(error)}")
                self._failed_s = self._now_s()
                return
            self._waiting.popleft()
        if self._failed_s is not None:
            self._tell(f"export {self._name} works again")
            self._failed_s = None


def _reason(error: Exception) -> str:
    return masked(first_line(error))


_EXPORTS: Mapping[str, tuple[Callable[[str], MetricsExport], str]] = {  # and what follows the = of each
    "openmetrics": (OpenMetricsFile, "FILE"),
    "otlp": (OtlpMetrics, "URL"),
    "wandb": (WandbRun, "PROJECT"),
    "mlflow": (MlflowRun, "URI"),
    "tensorboard": (TensorBoardScalars, "FOLDER"),
}


def export_of(asked: str) -> MetricsExport:
    """Raises UsageError where the name is none, the target is missing, or a library is."""
    name, equals, target = asked.partition("=")
    if name not in _EXPORTS:
        known = ", ".join(f"{known}={what}" for known, (_, what) in _EXPORTS.items())
        raise UsageError(f"watch: there is no export {name!r}; there are: {known}")
    make, what = _EXPORTS[name]
    if not equals or not target:
        raise UsageError(f"watch: export {name} needs a target: {name}={what}")
    try:
        return make(target)
    except ImportError as error:
        package = (error.name or name).partition(".")[0]
        raise UsageError(f"watch: export {name} needs {package}: pip install 'redline-perf[{name}]'") from error
