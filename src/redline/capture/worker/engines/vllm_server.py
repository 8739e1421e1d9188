"""Requests in the process that answers the clients of a vLLM engine: when they came, and when each token was ready."""

from __future__ import annotations

import sys
from time import monotonic_ns, time_ns

from redline.capture.worker.engines.engine_log import tell_reads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, ModuleType
    from typing import Any

    from redline.capture.worker.engines.engine_log import EngineLog

_NS_PER_S = 1_000_000_000
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


class VllmServer:
    """The front of an engine, which prepares texts and takes tokens apart."""

    def __init__(self, log: EngineLog) -> None:
        self._log = log

    def loaded(self, module: ModuleType) -> None:
        """`vllm.v1.engine.output_processor` has been imported."""
        tell_reads(module.OutputProcessor, "add_request", self._sent)
        tell_reads(module.OutputProcessor, "process_outputs", self._processing)
        tell_reads(module.RequestOutputCollector, "put", self._ready)

    def _sent(self, processor: Any, frame: FrameType) -> None:
        """A request is about to go to the engine; when it came, it was told by the other clock."""
        now_ns, unix_ns = monotonic_ns(), time_ns()
        request = frame.f_locals.get("child_request", frame.f_locals.get("request"))
        if request is not None:
            waited_ns = max(unix_ns - int(request.arrival_time * _NS_PER_S), 0)
            self._log.add("came", now_ns - waited_ns, now_ns, request.request_id)

    def _processing(self, processor: Any, frame: FrameType) -> None:
        self._log.add("outputs", monotonic_ns())

    def _ready(self, queue: Any, frame: FrameType) -> None:
        """Its text is there, for the one that answers."""
        name = frame.f_locals.get("req_id")
        if name is not None:
            self._log.add("ready", monotonic_ns(), name)


class VllmMetrics:
    """Figures that a vLLM server exports at /metrics, taken from its own registry as they change.

    Sums over all engines and labels. Buckets are left out: percentiles are known from the requests themselves.
    """

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
