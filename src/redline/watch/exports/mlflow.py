"""Windows as the metrics of an MLflow run, with their own times."""

from typing import Any

from redline.watch.exports.window_metrics import PREFIX, ExportedWindow

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
