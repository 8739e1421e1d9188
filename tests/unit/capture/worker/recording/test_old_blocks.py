"""Memory that is older than a recording may be freed in it without a word of torch in stderr."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")

from redline.capture.worker.recording.recorder import OldBlocks, hushed  # noqa: E402 (it needs torch)

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
