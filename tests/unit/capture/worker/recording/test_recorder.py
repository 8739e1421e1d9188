"""What torch is asked to record, and that neither old memory nor the profiler itself says a word in stderr."""

import gc
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from redline.capture.worker.recording.recorder import OldBlocks, experimental_options, hushed  # noqa: E402 (it needs torch)

WARNING = "Memory block of unknown size"
SOME = 900


@contextmanager
def recorded_memory() -> Iterator[None]:
    profiler = torch.autograd.profiler.profile(use_kineto=True, profile_memory=True)
    with hushed():
        profiler.__enter__()
    try:
        yield
    finally:
        with hushed():
            profiler.__exit__(None, None, None)


def old(count: int) -> list[object]:
    gc.collect()
    return [torch.UntypedStorage(1) for _ in range(count)]


def test_torch_warns_of_one_in_a_thousand_old_blocks(capfd: pytest.CaptureFixture[str]) -> None:
    blocks = old(1000)
    with recorded_memory():
        blocks.clear()
    assert capfd.readouterr().err.count(WARNING) == 1


def test_it_warns_no_more_once_its_warning_is_used_up(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):  # windows: the second begins near the next warning
        blocks, ours = old(SOME), OldBlocks()
        with recorded_memory():
            ours.use_up_warning()
            blocks.clear()
        del ours
    assert WARNING not in capfd.readouterr().err


def test_blocks_that_are_kept_are_never_freed(capfd: pytest.CaptureFixture[str]) -> None:
    ours, blocks = OldBlocks(), old(SOME)
    with recorded_memory():
        ours.use_up_warning()
        ours.keep()
        del ours
        blocks.clear()
    assert WARNING not in capfd.readouterr().err


# What the profiler says about itself is kept from stderr, and nothing else is.

OWN = b"USDT:2026-01-01 10:00:00 1:1 SyncActivityProfilerHandler.cpp:52] profiler_start\n"


def stderr_during(act: object) -> bytes:
    """What reaches the descriptor of stderr meanwhile."""
    real, aside = os.dup(2), os.memfd_create("test")
    os.dup2(aside, 2)
    try:
        act()  # type: ignore[operator]
    finally:
        os.dup2(real, 2)
        os.close(real)
    content = os.pread(aside, 1 << 20, 0)
    os.close(aside)
    return content


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def files_that_may_not_grow() -> Iterator[None]:
    """As a script may have it: to write into a file ends the process."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGXFSZ, handler)
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_where_no_file_may_grow_its_lines_are_dropped_all_the_same(files_that_may_not_grow: None) -> None:
    real = os.dup(2)
    files = open_files()
    ends = os.pipe()
    os.dup2(ends[1], 2)
    try:
        with hushed() as said:
            os.write(2, b"a warning of the script\n" + OWN)
            assert said().endswith(OWN)
            os.write(2, b"INFO: of the script\n")
    finally:
        os.dup2(real, 2)
    assert os.read(ends[0], 1000) == b"a warning of the script\nINFO: of the script\n"
    for end in ends:
        os.close(end)
    assert open_files() == files
    os.close(real)


def test_its_lines_are_dropped_and_others_follow() -> None:
    def act() -> None:
        with hushed():
            os.write(2, b"a warning of the script\n" + OWN + b"INFO: of the script\n")
        os.write(2, b"later\n")

    assert stderr_during(act) == b"a warning of the script\nINFO: of the script\nlater\n"


def test_an_exception_leaves_stderr_in_its_place() -> None:
    def act() -> None:
        with pytest.raises(KeyError), hushed():
            os.write(2, b"before\n")
            raise KeyError
        os.write(2, b"after\n")

    files = open_files()
    assert stderr_during(act) == b"before\nafter\n"
    assert open_files() == files


def test_a_closed_stderr_stays_closed() -> None:
    files = open_files()
    real = os.dup(2)
    os.close(2)
    try:
        with hushed():
            pass
        closed = not Path("/proc/self/fd/2").exists()
    finally:
        os.dup2(real, 2)
        os.close(real)
    assert closed
    assert open_files() == files


# What torch.profiler is asked for: as much as the torch that is there knows.


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
