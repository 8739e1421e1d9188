"""Traces with recorded calls of models, for tests of rules: a step lasts 1 ms, and each call fills a part of it."""

from collections.abc import Sequence

from tests.support.events import Event, document, op
from tests.support.rules.host_record import at_ns, evidence
from tests.support.rules.matching import step

Call = tuple[float, int, Sequence[int]]  # at, in a step; the model; its inputs

MODELS = ({"kind": "Denoiser", "denoises": True}, {"kind": "Encoder"}, {"kind": "Upscaler"})


def recorded_calls(
    *steps: Sequence[Call], shapes: dict[int, str] | None = None, training: bool = False, extra: Sequence[Event] = ()
) -> bytes:
    """Inputs below 100 are tensors of one shape, unless `shapes` says another."""
    events: list[Event] = [*extra]
    times, models, inputs = [], [], []
    for place, calls in enumerate(steps):
        start = place * 1000
        events.append(step(place, start, 1000))
        for number, (at, model, given) in enumerate(calls):
            over = calls[number + 1][0] if number + 1 < len(calls) else 1000
            events.append(op("aten::linear", start + at + 1, over - at - 2))
            times.append(at_ns(start + at))
            models.append(model)
            inputs.append(list(given))
    most = max(number for given in inputs for number in given)
    kinds = [(shapes or {}).get(number, "float32[2,4]" if number < 100 else "") for number in range(most + 1)]
    calls_part = {
        "time_ns": times,
        "model": models,
        "models": [{**model, "training": training} for model in MODELS],
        "inputs": inputs,
        "shapes": kinds,
    }
    return document(events, **evidence(calls=calls_part))
