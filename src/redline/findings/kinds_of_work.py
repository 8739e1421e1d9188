"""Kinds of work of a Python stack beside training: saving, evaluating, making batches, averaging, logging."""

import re
from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from redline.ledger.rank.call_sites import Frame, frame_of, weights_ns
from redline.timeline.host_evidence import HostEvidence
from redline.timeline.intervals import Intervals


class WorkKind(StrEnum):
    """In the order in which they are asked for: an evaluation logs, a checkpoint may be saved by an evaluation."""

    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    INPUT = "input"
    AVERAGING = "averaging"
    LOGGING = "logging"


_FILES = {
    WorkKind.CHECKPOINT: ("torch/serialization.py", "torch/distributed/checkpoint/", "safetensors/"),
    WorkKind.EVALUATION: ("torch/nn/modules/module.py",),  # a model is called
    WorkKind.INPUT: ("torch/utils/data/",),
    WorkKind.AVERAGING: ("torch/optim/swa_utils.py",),
    WorkKind.LOGGING: ("logging/", "json/", "csv.py", "torch/utils/tensorboard/", "tensorboard", "wandb/", "mlflow/"),
}
_FUNCTIONS = {
    WorkKind.CHECKPOINT: r"save_(checkpoint|pretrained|model|state)",
    WorkKind.EVALUATION: r"eval|evaluat(e|ion)|validat(e|ion)",
    WorkKind.INPUT: r"(get|next|load|make)_batch|batches|collate|augment(ed)?|tokeni[sz]e",
    WorkKind.AVERAGING: r"ema|swa|polyak|moving_average",
    WorkKind.LOGGING: r"log|metrics?|accuracy|confusion",
}
_WORDS = {kind: re.compile(rf"(^|[_.])({words})($|[_.])") for kind, words in _FUNCTIONS.items()}
_TRAINING = ("torch/autograd/", "torch/optim/")
_CALLS_A_MODEL = re.compile(r"(^|\.)_(wrapped_)?call_impl$")


def kind_of(stack: Sequence[str]) -> WorkKind | None:
    """None where no frame tells."""
    frames = [frame_of(text) for text in stack]
    return next((kind for kind in WorkKind if any(_tells(kind, frame) for frame in frames)), None)


def around_models(stack: Sequence[str]) -> Sequence[str]:
    """The part of the stack that is outside of any call of a model."""
    calls = [place for place, text in enumerate(stack) if _tells(WorkKind.EVALUATION, frame_of(text))]
    return stack[calls[-1] :] if calls else stack


def is_training(stack: Sequence[str]) -> bool:
    """It is in a call of a model, a backward pass or an optimizer."""
    frames = [frame_of(text) for text in stack]
    return any(frame.file.startswith(_TRAINING) or _tells(WorkKind.EVALUATION, frame) for frame in frames)


def _tells(kind: WorkKind, frame: Frame) -> bool:
    if frame.is_theirs:
        return _WORDS[kind].search(frame.named.lower()) is not None or frame.file.startswith(_FILES[kind])
    is_call = kind is not WorkKind.EVALUATION or _CALLS_A_MODEL.search(frame.function) is not None
    return is_call and frame.file.startswith(_FILES[kind])


def kinds_in(evidence: HostEvidence, time: Intervals) -> dict[WorkKind, int]:
    """Nanoseconds of this time by kind, by samples."""
    weight_ns = weights_ns(evidence, time, late_ns=0)  # what is read a little later is the next step
    of_stack = [kind_of(stack) for stack in evidence.stacks]
    sums: dict[WorkKind, int] = {}
    for sample in np.flatnonzero(weight_ns).tolist():
        kind = of_stack[evidence.samples.stack[sample]]
        if kind is not None:
            sums[kind] = sums.get(kind, 0) + int(weight_ns[sample])
    return sums
