"""Figures that a vLLM server exports at /metrics, taken from its own registry as they change."""

from __future__ import annotations

import sys
from time import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EVERY_NS = 2_000_000_000
_COUNTERS = ("prompt_tokens", "generation_tokens", "num_preemptions", "prefix_cache_queries", "prefix_cache_hits")
_TIMES = (
    "time_to_first_token_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
)
_NAMES = [
    *(f"vllm:{name}_total" for name in _COUNTERS),
    *(f"vllm:{name}_{part}" for name in _TIMES for part in ("sum", "count")),
]


class VllmMetrics:
    """Sums over all engines and labels. Buckets are left out: percentiles are known from the requests themselves."""

    def __init__(self) -> None:
        self._asked_ns = 0
        self._known: dict[str, float] = {}

    def record(self) -> tuple[object, ...] | None:
        """None where nothing has changed, or not enough time has passed."""
        now_ns = monotonic_ns()
        client: Any = sys.modules.get("prometheus_client")
        if client is None or now_ns - self._asked_ns < EVERY_NS:
            return None
        self._asked_ns = now_ns
        found: dict[str, float] = {}
        for family in client.REGISTRY.restricted_registry(_NAMES).collect():
            for sample in family.samples:
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
        if found == self._known:
            return None
        self._known = found
        return "metrics", now_ns, found
