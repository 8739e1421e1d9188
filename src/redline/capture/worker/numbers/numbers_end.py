"""Writes the numbers of a process to its file, when enough steps are done or the script ends, and ends the process."""

from __future__ import annotations

import os
import sys
import time

import torch

from redline.capture.number_check import FILE_ENDING, START
from redline.capture.worker.trial.file_guard import FileGuard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.capture.worker.numbers.numbers_state import NumbersState

_MOST_FILES = 10  # that are told
_OTHERS_S = 20.0  # that a rank waits for the files of the others before it ends


class NumbersEnd:
    """Of one process."""

    def __init__(self, state: NumbersState) -> None:
        self._state = state

    def script_ended(self) -> None:
        """Where it has computed nothing, others that it started may have."""
        is_other = not self._state.recording.tensors and os.path.exists(self._path(_rank()))  # noqa: PTH110
        if self._state.goes_on() and not is_other:
            with self._state.guarded():
                self._write()

    def finish(self) -> None:
        """All steps that were asked for are done: the script does nothing more, neither evaluate nor save."""
        self._write()
        self._wait_for_others()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(0)

    def _write(self) -> None:
        state = self._state
        state.is_over = True
        for path in FileGuard.here.written_elsewhere()[:_MOST_FILES] if FileGuard.here else ():
            state.recording.notes[f"the script wrote to {path}, outside of the folder for its output"] = None
        steps = max((step for step, kind, _ in state.recording.tensors if kind != START), default=-1) + 1
        facts = {
            "world": _world(),
            "steps": steps,
            "by_optimizer": state.by_optimizer,
            "lowered": state.lowered,
            "failure": state.failure,
            "check": {**state.check.to_settings(), "folder": ""},
            "torch": torch.__version__,
        }
        state.recording.write(state.check.folder, _rank(), facts)

    def _wait_for_others(self) -> None:
        """A rank that ends while another still receives what it sent would fail that one."""
        until_s = time.monotonic() + _OTHERS_S
        names = [self._path(rank) for rank in range(_world())]
        while time.monotonic() < until_s and not all(map(os.path.exists, names)):
            time.sleep(0.01)

    def _path(self, rank: int) -> str:
        return f"{self._state.check.folder}/rank-{rank}{FILE_ENDING}"


def _rank() -> int:
    return torch.distributed.get_rank() if _is_distributed() else int(os.environ.get("RANK", "0"))


def _world() -> int:
    return torch.distributed.get_world_size() if _is_distributed() else int(os.environ.get("WORLD_SIZE", "1"))


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
