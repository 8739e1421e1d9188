"""The engine's own metrics beside what was recorded of the same requests."""

from pathlib import Path

import pytest

from redline.report.serving.serving_tables import metrics_line
from redline.serving.diagnose_serving import ServingDiagnosis, diagnose_serving
from tests.support.made_engine import MadeEngine, MadeRequest


def _exported(requests: list[MadeRequest], times: float = 1.0) -> dict[str, float]:
    """As vLLM counts: sums of seconds over requests."""
    lengths: dict[str, list[float]] = {
        "time_to_first_token_seconds": [one.first_ns - one.came_ns for one in requests],
        "e2e_request_latency_seconds": [one.last_ns - one.came_ns for one in requests],
        "request_time_per_output_token_seconds": [
            (one.last_ns - one.first_ns) / max(one.wanted - 1, 1) for one in requests
        ],
        "request_queue_time_seconds": [one.waited["queue"] for one in requests],
    }
    figures = {f"vllm:{name}_sum": times * sum(of) / 1e9 for name, of in lengths.items()}
    return figures | {f"vllm:{name}_count": float(len(requests)) for name in lengths}


def _diagnosed(engine: MadeEngine, figures: dict[str, float], folder: Path) -> ServingDiagnosis:
    engine.server.append(["metrics", engine.now_ns, figures])
    found = diagnose_serving(engine.write(folder))
    assert found is not None
    return found


def test_the_same_requests_have_the_same_means(tmp_path: Path) -> None:
    engine = MadeEngine(seed=4)
    found = _diagnosed(engine, _exported(engine.run(40)), tmp_path)
    assert len(found.metrics) == 4
    for check in found.metrics:
        assert check.requests == 40
        assert check.recorded_ns == pytest.approx(check.exported_ns, rel=1e-6)


def test_requests_that_the_engine_had_not_counted_yet_are_left_out(tmp_path: Path) -> None:
    engine = MadeEngine(seed=4)
    ended = sorted(engine.run(40), key=lambda one: one.last_ns)[:25]
    found = _diagnosed(engine, _exported(ended), tmp_path)
    check = next(check for check in found.metrics if check.name == "e2e_request_latency_seconds")
    assert check.requests == 25
    assert check.difference < 1e-6


def test_a_difference_is_told(tmp_path: Path) -> None:
    engine = MadeEngine(seed=4)
    found = _diagnosed(engine, _exported(engine.run(40), times=0.8), tmp_path)
    assert "by at most 25.0 %" in metrics_line(found)


def test_without_metrics_nothing_is_said(tmp_path: Path) -> None:
    engine = MadeEngine(seed=4)
    engine.run(10)
    found = diagnose_serving(engine.write(tmp_path))
    assert found is not None
    assert metrics_line(found) == ""
