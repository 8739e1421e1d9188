"""Outermost calls in a window of inference: which modules, and which of their inputs were the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from redline.capture.shared_state import SharedState  # noqa: E402
from redline.capture.worker.counting.calls import ModuleCalls, TrainingThread  # noqa: E402
from redline.capture.worker.counting.steps import StepCounter  # noqa: E402
from redline.capture.worker.recording.called_models import CalledModelsCollector  # noqa: E402


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: Tensor, *others: object, **named: object) -> Tensor:
        out: Tensor = self.layer(inputs)
        return out


class Encoder(Model):
    """Another class."""


@contextmanager
def recorded(model: nn.Module, *others: nn.Module) -> Iterator[dict[str, Any]]:
    """What is recorded of the block, in a job whose steps are calls of the model."""
    shared = SharedState.make(1)
    context = SimpleNamespace(shared=shared, number=0, slot=shared.claim(0))
    calls = ModuleCalls(TrainingThread())
    calls.look_for_steps(StepCounter(context, lambda *_: None, lambda: None), lambda watch: watch())  # type: ignore[arg-type]
    collector = CalledModelsCollector(calls, lambda: True)
    found: dict[str, Any] = {}
    try:
        with torch.no_grad():
            for _ in range(5):
                model(torch.zeros(1, 4))
            collector.warm_up()
            for one in (model, *others):
                one(torch.zeros(1, 4))
            collector.window_opened()
            yield found
            collector.window_closed()
            found |= collector.part() or {}  # type: ignore[call-overload]
    finally:
        calls.stop()
    assert nn.Module._compiled_call_impl is None
    assert not any("_compiled_call_impl" in vars(kind) for kind in (Model, Encoder))


def numbers(found: dict[str, Any]) -> list[int]:
    """Of the first input of each call."""
    return [inputs[0] for inputs in found["inputs"]]


def test_outermost_calls_of_all_known_classes_are_recorded() -> None:
    model, encoder = Model().eval(), Encoder()
    with recorded(model, encoder) as found:
        model(encoder(torch.ones(2, 4)))
    assert [known["kind"] for known in found["models"]] == ["Encoder", "Model"]
    assert [known["training"] for known in found["models"]] == [True, False]
    assert found["model"] == [0, 1]
    assert found["time_ns"] == sorted(found["time_ns"])
    assert found["shapes"] == ["float32[2,4]", "float32[2,4]"]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_small_tensors_are_the_same_by_their_data(mode: Any) -> None:
    model = Model()
    with recorded(model) as found, mode():
        model(torch.ones(2, 4))
        model(torch.ones(2, 4))
        model(torch.zeros(2, 4))
        model(torch.ones(1, 4))
    assert numbers(found) == [0, 0, 1, 2]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_large_tensors_are_the_same_until_they_are_written_into(mode: Any) -> None:
    model = Model()
    with recorded(model) as found, mode():
        large = torch.zeros(20_000, 4)
        model(large)
        model(large[:])
        model(large.clone())
        large += 1
        model(large)
    assert numbers(found) == [0, 0, 1, 2]


def test_objects_may_change_behind_their_names_and_numbers_do_not() -> None:
    model, inputs, cache = Model(), torch.zeros(2, 4), object()
    with recorded(model) as found:
        model(inputs, cache, 3)
        model(inputs, cache, start=3)
        model(inputs, {"hidden": inputs}, 3.0)
    assert found["inputs"] == [[0, 1, 2], [0, 3, 2], [0, 0, 4]]


def test_nothing_is_recorded_of_training() -> None:
    shared = SimpleNamespace(learn_outermost=pytest.fail, hear=lambda told: told is None or pytest.fail("told"))
    collector = CalledModelsCollector(shared, lambda: False)  # type: ignore[arg-type]
    collector.warm_up()
    collector.window_opened()
    collector.window_closed()
    assert collector.part() is None


def test_of_a_mask_the_positions_of_the_longest_text_are_counted() -> None:
    model, tokens = Model(), torch.zeros(2, 4)
    padded = torch.tensor([[0] * 30 + [1] * 10, [0] * 25 + [1] * 15])
    cached = torch.zeros(2, 1, 3, 50, dtype=torch.bool)
    cached[0, 0, -1, :20] = True
    with recorded(model) as found:
        model(tokens, padded)
        model(tokens, cached)
        model(tokens, padded + 1)
        model(tokens, torch.ones(2, 8, dtype=torch.bool))
    assert [found["used"][inputs[1]] for inputs in found["inputs"]] == [15, 20, -1, -1]
    assert found["used"][0] == -1
