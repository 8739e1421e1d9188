"""Windows as OpenTelemetry gauges, sent over OTLP/HTTP with the time at which each window began."""

from typing import Any

import redline
from redline.errors import OutputError
from redline.watch.exports.window_metrics import PREFIX, ExportedWindow, WindowMetric

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
                attributes=dict(sample.labels), start_time_unix_nano=time_ns, time_unix_nano=time_ns, value=sample.value
            )
            for sample in metric.samples
        ]
        return self._types.Metric(
            name=f"{PREFIX}.{metric.name}",
            description=metric.help,
            unit=_UNITS.get(metric.name.rpartition("_")[2], "{count}"),
            data=self._types.Gauge(data_points=points),
        )
