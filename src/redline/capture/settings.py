"""Settings that the processes of a job get: where to write, and which steps to capture."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # this runs in the user's process: it imports next to nothing
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

VARIABLE = "REDLINE_WORKER"  # of the environment; gone before the user's script begins
FORMER_PATH = "REDLINE_PYTHONPATH"  # what PYTHONPATH was, if it was set

_MIB = 1 << 20
_GIB = 1 << 30


class Settings:
    """How to watch and what to capture; every value has a default that is meant for a long job."""

    folder: str = ""  # where traces go; "" where none can be written
    board: str = ""  # path of the shared memory
    sitecustomize_failed: bool = False  # the user's own, in the watcher, where Python has said so
    elastic: bool = False  # started by torchrun, which says who is who in the environment
    follow: bool = False  # watch ranks that a process starts by itself as well
    offspring: bool = False  # started by a process of the job
    launcher: str = ""  # how ranks are told where a program of the job starts them, and other processes as well
    slots: int = 1
    local_size: int = 1  # processes on this machine
    rank: int = 0  # where the launcher says; torch.distributed knows better once it is there
    capture: bool = True
    after: int = 8  # steps before the first window, so that compiling and autotuning are over
    steps: int = 3  # in a window
    timed_after_s: float = 30.0  # without a step, from torch on: a window of fixed duration; 0 for none
    every: int = 0  # steps from one window to the next; 0 for one window only
    when: str = ""  # a condition on a step that asks for a window
    budget: float = 0.01  # of the run's time that windows after the first may cost
    keep: int = 16  # windows of a rank on disk
    disk_bytes: int = 2 * _GIB  # of all files of this run on this machine
    free_bytes: int = 1 * _GIB  # that stay free on the disk
    memory_bytes: int = 256 * _MIB  # that a window may add to a process
    shapes: bool = True
    stacks: bool = False
    memory: bool = False
    fork: bool = True  # write in a forked child; otherwise in the process itself, which then stands still meanwhile
    flush_s: float = 5.0  # after SIGTERM
    kept_levers: Sequence[str] = ()  # changes that are made from the beginning on
    levers: Sequence[str] = ()  # changes that are tried
    on_trial: bool = False  # the process ends when it is told to
    block_seed: int = 0  # by which levers are switched on and off in blocks of steps; 0 where they stay on
    guarded: Sequence[str] = ()  # folders to which the job must not write
    places: bool = False  # tell where in the user's files things are made that levers change
    scratch: str = ""  # the folder to which it may, wherever that lies
    numbers: Mapping[str, Any] = {}  # of a NumberCheck; none where no numbers are recorded

    def __init__(self, values: Mapping[str, object]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    @property
    def is_file_guarded(self) -> bool:
        """It matters what the job writes: it must not, or what it wrote is told with its numbers."""
        return bool(self.guarded or self.numbers)

    def to_text(self) -> str:
        return json.dumps(vars(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Settings:
        return cls(json.loads(text))


def environment_for(inherited: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """The environment in which a Python is watched: it begins in our folder `boot`."""
    boot = os.path.join(os.path.dirname(os.path.abspath(__file__)), "boot")  # noqa: PTH100, PTH118, PTH120
    former = inherited.get("PYTHONPATH")
    kind = settings.launcher or ("elastic" if settings.elastic else "plain")
    changed = {
        **inherited,
        VARIABLE: f"{kind} {settings.to_text()}",
        "PYTHONPATH": f"{boot}:{former}" if former else boot,
    }
    if former is not None:
        changed[FORMER_PATH] = former
    return changed
