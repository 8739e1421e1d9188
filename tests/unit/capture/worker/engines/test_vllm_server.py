"""Figures of a registry of Prometheus: sums over labels, and only where they have changed."""

import sys
from types import ModuleType

import pytest

from redline.capture.worker.engines import vllm_server
from redline.capture.worker.engines.vllm_server import VllmMetrics

prometheus_client = pytest.importorskip("prometheus_client")


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A client of its own, with a registry that nobody else uses."""
    module = ModuleType("prometheus_client")
    module.REGISTRY = prometheus_client.CollectorRegistry()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "prometheus_client", module)
    monkeypatch.setattr(vllm_server, "EVERY_NS", 0)
    return module


def test_figures_are_summed_over_labels_and_told_once(exported: ModuleType) -> None:
    tokens = prometheus_client.Counter("vllm:prompt_tokens", "", ["engine"], registry=exported.REGISTRY)
    times = prometheus_client.Histogram("vllm:e2e_request_latency_seconds", "", registry=exported.REGISTRY)
    prometheus_client.Gauge("other", "", registry=exported.REGISTRY).set(3)
    tokens.labels("0").inc(5)
    tokens.labels("1").inc(7)
    times.observe(0.5)
    metrics = VllmMetrics()
    told = metrics.record()
    assert told is not None
    assert told[2] == {
        "vllm:prompt_tokens_total": 12.0,
        "vllm:e2e_request_latency_seconds_sum": 0.5,
        "vllm:e2e_request_latency_seconds_count": 1.0,
    }
    assert metrics.record() is None
    times.observe(0.5)
    assert metrics.record() is not None


def test_where_nothing_is_exported_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "prometheus_client", raising=False)
    assert VllmMetrics().record() is None
