"""Recordings of a job under trial."""

from redline.ledger.job.combine import Diagnosis, combine
from tests.support.events import Event, document, op
from tests.support.rules.matching import FP32, described, digest, step


def job(*lengths_us: float, rows: int = 64, extra: list[Event] | None = None) -> Diagnosis:
    """Steps of these lengths; the first half of each computes."""
    events: list[Event] = []
    at = 0.0
    for number, length in enumerate(lengths_us):
        product = op("aten::mm", at, length / 2, **described(FP32, [rows, 64], [64, 64]))
        events += [step(number, at, length), product]
        at += length
    return combine([digest(document([*events, *(extra or [])]))])
