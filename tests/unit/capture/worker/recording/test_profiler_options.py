"""What torch.profiler is asked for: as much as the torch that is there knows."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from redline.capture.worker.recording.recorder import experimental_options  # noqa: E402 (imports torch)


def has_events(config: Any) -> bool:
    """Whether events can be asked for in Python."""
    with torch.profiler.profile(experimental_config=config) as profiler:
        torch.ones(3).sum()
    try:
        return bool(profiler.events())
    except RuntimeError:  # "events() is not available when trace_only=True"
        return False


@pytest.mark.skipif(
    not hasattr(torch._C._profiler._ExperimentalConfig(), "trace_only"), reason="this torch does not have trace_only"
)
@pytest.mark.parametrize("stacks", [False, True])
def test_no_python_objects_of_events_unless_stacks_need_them(stacks: bool) -> None:
    assert has_events(experimental_options(stacks=stacks, on_device=True)) is stacks


class OfTorch20:
    """Takes the settings of torch 2.0."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.known = {"verbose": verbose}


class OfTorch21(OfTorch20):
    """Takes the settings of torch 2.1, as far as they matter here."""

    def __init__(self, *, verbose: bool = False, enable_cuda_sync_events: bool = False) -> None:
        super().__init__(verbose=verbose)
        self.known["enable_cuda_sync_events"] = enable_cuda_sync_events


@pytest.mark.parametrize(
    ("config", "known"),
    [(OfTorch20, {"verbose": False}), (OfTorch21, {"verbose": False, "enable_cuda_sync_events": True})],
)
def test_an_older_torch_is_asked_for_what_it_knows(
    config: type[OfTorch20], known: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch._C._profiler, "_ExperimentalConfig", config)
    assert experimental_options(stacks=False, on_device=True).known == known


def test_a_torch_without_such_settings_is_asked_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C._profiler, "_ExperimentalConfig")
    assert experimental_options(stacks=False, on_device=True) is None


def test_nothing_is_asked_for_where_only_the_cpu_is_recorded() -> None:
    assert experimental_options(stacks=False, on_device=False) is None
