"""The newest window as a text file for the textfile collector of Prometheus' node exporter.

The text is OpenMetrics and Prometheus' older format at once: gauges alone, without times, which the collector refuses.
"""

from pathlib import Path

from redline.artifacts import write_atomic
from redline.errors import UsageError
from redline.watch.exports.window_metrics import PREFIX, ExportedWindow, MetricSample

_ENDING = ".prom"


class OpenMetricsFile:
    """Written whole for each window, so that the collector never sees a part."""

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
        lines += [f"{name}{_labels(window.run, sample)} {sample.value!r}" for sample in metric.samples]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _labels(run: str, sample: MetricSample) -> str:
    """The run tells several watches on a node apart."""
    pairs = {"run": run, **sample.labels}
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items()) + "}"


def _escaped(text: str) -> str:
    return text.encode(errors="replace").decode().replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
