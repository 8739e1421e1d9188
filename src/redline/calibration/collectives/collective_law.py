"""From times by size to a latency and a rate, with the error on sizes that the fit had not seen; and the ideal ring."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2, sqrt

import numpy as np

from redline.calibration.calibration_record import CollectiveLaw, CollectivePoint

FEWEST_SIZES = 4
_STEPS = 400
"""Of the search for the size at which latency and transfer take equally long."""


def fit(sizes_bytes: Sequence[float], times_ns: Sequence[float]) -> tuple[float, float]:
    """The latency in ns and the rate in bytes/s of time = latency + size / rate.

    The sum of the absolute errors of the logarithm is least: each size counts alike, and one that is off does not bend
    the law. With `half` = latency * rate, the size at which half of the time is latency, the time is
    latency * (1 + size / half): for every `half` the best latency is a median, and the best `half` is searched for.
    """
    sizes, logs = np.asarray(sizes_bytes, dtype=float), np.log(np.asarray(times_ns, dtype=float))
    halves = np.geomspace(sizes.min() / 10, sizes.max() * 10, _STEPS)
    shapes = np.log1p(sizes[None, :] / halves[:, None])
    latencies = np.median(logs[None, :] - shapes, axis=1)
    errors = np.abs(logs[None, :] - shapes - latencies[:, None]).sum(axis=1)
    best = int(np.argmin(errors))
    latency_ns = float(np.exp(latencies[best]))
    return latency_ns, float(halves[best]) / latency_ns * 1e9


def unseen_errors(sizes_bytes: Sequence[float], times_ns: Sequence[float]) -> list[float]:
    """Fitted on every other size, how far the law is off at those between: |predicted / measured - 1|."""
    errors = []
    for first in (0, 1):
        latency_ns, rate = fit(sizes_bytes[first::2], times_ns[first::2])
        unseen = zip(sizes_bytes[1 - first :: 2], times_ns[1 - first :: 2], strict=True)
        errors += [abs((latency_ns + size / rate * 1e9) / time - 1) for size, time in unseen]
    return errors


def laws(points: Sequence[CollectivePoint]) -> tuple[CollectiveLaw, ...]:
    """One for each operation and group of which enough sizes were measured.

    They are fitted to the fastest samples. On a CPU the threads of a rank compete with those of others for cores, so
    that some calls wait for the scheduler, many times as long as the call itself takes: chance, which has no law.
    """
    series: dict[tuple[str, str, int], list[CollectivePoint]] = {}
    for point in points:
        if point.size_bytes:
            series.setdefault((point.operation, point.group, point.ranks), []).append(point)
    return tuple(_law(of) for of in series.values() if len(of) >= FEWEST_SIZES)


def _law(points: Sequence[CollectivePoint]) -> CollectiveLaw:
    ordered = sorted(points, key=lambda point: point.size_bytes)
    sizes = [float(point.size_bytes) for point in ordered]
    times = [point.fastest_ns for point in ordered]
    latency_ns, rate = fit(sizes, times)
    errors = unseen_errors(sizes, times)
    return CollectiveLaw(
        operation=ordered[0].operation,
        group=ordered[0].group,
        ranks=ordered[0].ranks,
        latency_ns=latency_ns,
        bytes_per_s=rate,
        error_median=float(np.median(errors)),
        error_p90=float(np.quantile(errors, 0.9)),
        points=len(ordered),
    )


def ring_time_ns(
    operation: str, ranks: int, size_bytes: float, pair_latency_ns: float, pair_bytes_per_s: float
) -> float:
    """How long the operation takes by the textbook, where each rank sends one message and receives one at a time.

    With a message of m bytes taking a + m / b (the law of send_recv), S the size, n the ranks:

    - send_recv: one message, a + S / b.
    - all_gather, reduce_scatter: n - 1 times each rank hands the part that it has just received on to the next,
      (n - 1) (a + S / (n b)). all_reduce is both, one after the other, so twice that.
    - gather, scatter: the root's link carries n - 1 parts, one by one: the same.
    - all_to_all: in step i, each rank gives one part to the i-th rank after it: the same.
    - broadcast, reduce: k pieces follow each other along the ring; the last one has n - 1 links to go and leaves after
      k - 1 steps, (n - 2 + k) (a + S / (k b)). It is least, (sqrt((n - 2) a) + sqrt(S / b))^2, with
      k = sqrt((n - 2) S / (a b)) pieces; where that is less than one, the whole goes at once.
    - barrier: in step i, each rank tells the rank 2^i after it; all know of all after log2 n steps, rounded up.
    """
    latency, transfer = pair_latency_ns, size_bytes / pair_bytes_per_s * 1e9
    part_steps = (ranks - 1) * (latency + transfer / ranks)
    match operation:
        case "send_recv":
            return latency + transfer
        case "all_reduce":
            return 2 * part_steps
        case "broadcast" | "reduce":
            is_cut = (ranks - 2) * transfer > latency
            whole = (ranks - 1) * (latency + transfer)
            return (sqrt((ranks - 2) * latency) + sqrt(transfer)) ** 2 if is_cut else whole
        case "barrier":
            return ceil(log2(ranks)) * latency
        case _:
            return part_steps
