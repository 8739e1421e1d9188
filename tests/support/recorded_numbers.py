"""Numbers of a job, recorded."""

import torch

from redline.capture.worker.numbers.recording import NumbersRecording

FACTS = {"world": 1, "steps": 1, "by_optimizer": True, "lowered": False, "failure": ""}


def recorded(tensor: torch.Tensor) -> NumbersRecording:
    recording = NumbersRecording()
    recording.add(0, "gradient", "weight", tensor)
    return recording
