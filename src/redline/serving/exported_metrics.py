"""Whether what the engine's own metrics say of its requests is what was recorded of them."""

from dataclasses import dataclass

import numpy as np

from redline.serving.recording import UNKNOWN_NS, ServingRecording
from redline.serving.request_ledger import RequestAccount, RequestLedger, RequestTimes
from redline.timeline.table import I64, Column

_NS_PER_S = 1e9


@dataclass(frozen=True, kw_only=True)
class MetricCheck:
    """A mean over the same requests, as the engine exports it and as it was recorded."""

    name: str
    requests: int
    exported_ns: float
    recorded_ns: float

    @property
    def difference(self) -> float:
        """Of what the engine exports."""
        return abs(self.recorded_ns - self.exported_ns) / self.exported_ns if self.exported_ns else 0.0


def check_metrics(recording: ServingRecording, ledger: RequestLedger) -> tuple[MetricCheck, ...]:
    """None where requests are missing on one side: with several engines, or where recording began in the middle."""
    if recording.engines > 1 or ledger.left_out or not recording.exported:
        return ()
    first, last = ledger.to_first_token, ledger.to_last_token
    began = _began(recording, last.request)
    ended = began + last.length_ns
    decoding = (last.length_ns - first.length_ns) / np.maximum(ledger.tokens - 1, 1)
    found = [
        _check(recording, "time_to_first_token_seconds", began + first.length_ns, first.length_ns.astype(float)),
        _check(recording, "request_time_per_output_token_seconds", ended, np.where(ledger.tokens > 1, decoding, 0.0)),
        _check(recording, "e2e_request_latency_seconds", ended, last.length_ns.astype(float)),
        _check(recording, "request_queue_time_seconds", ended, _queue(last)),
    ]
    return tuple(check for check in found if check is not None)


def _began(recording: ServingRecording, request: I64) -> I64:
    came, queued = recording.requests.came_ns[request], recording.requests.queued_ns[request]
    return np.where(came == UNKNOWN_NS, queued, came)


def _queue(times: RequestTimes) -> Column:
    return times.amounts_ns[:, RequestAccount.QUEUE].astype(float)


def _check(recording: ServingRecording, name: str, moment_ns: I64, lengths_ns: Column) -> MetricCheck | None:
    """Of the requests that came to this moment before the engine's figures were looked at: as many as it counts."""
    number = int(recording.exported.get(f"vllm:{name}_count", 0))
    if not 0 < number <= len(moment_ns):
        return None
    counted = np.argsort(moment_ns, kind="stable")[:number]
    return MetricCheck(
        name=name,
        requests=number,
        exported_ns=recording.exported.get(f"vllm:{name}_sum", 0.0) * _NS_PER_S / number,
        recorded_ns=float(lengths_ns[counted].mean()),
    )
