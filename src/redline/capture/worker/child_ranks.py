"""Ranks that a process of the job starts by itself: `multiprocessing` by spawning, or a launcher inside of the script.

Python starts every program through one function of C. A program that is started there as a rank, or that starts ranks,
gets the environment that this process got, so that they are watched as this one is. All others get what the script
gave them.
"""

from __future__ import annotations

import _posixsubprocess
import os
import sys
from functools import partial
from itertools import takewhile

from redline.capture.settings import Settings, environment_for
from redline.capture.worker.exception_origin import pass_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import Any

SPAWNED = "--multiprocessing-fork"  # among the words of what multiprocessing starts
_WITHOUT_VALUES = set("bBdEhiIOPqsSuvVx")  # options of Python
_ENVIRONMENT = 5  # of the arguments of fork_exec
_SAY_SO = (b"LOCAL_RANK=", b"ACCELERATE_MIXED_PRECISION=")  # the latter for a job of one rank, which has no number
_ENGINES = ("vllm",)  # packages whose workers compute, whatever else they may do
# Programs that start ranks, and where in them a rank is told from other processes, in the words of `boot`.
_LAUNCHERS = {"raylet": "ray", "torchrun": "elastic", "torch.distributed.run": "elastic"}


def follow(settings: Settings) -> None:
    """Watch ranks that this process starts from now on."""
    told = Settings({**vars(settings), "offspring": True, "launcher": ""})
    start = _Start(_posixsubprocess.fork_exec, told)
    _posixsubprocess.fork_exec = start
    subprocess = sys.modules.get("subprocess")
    if subprocess is not None:  # it has taken the function under a name of its own
        subprocess._fork_exec = start  # type: ignore[attr-defined]


class _Start:
    """Stands for `fork_exec`. What is called in the end is the one of C, so that no traceback shows a frame of ours."""

    def __init__(self, plain: Callable[..., int], told: Settings) -> None:
        self._plain = plain
        self._told = told

    @property
    def __call__(self) -> Callable[..., int]:
        """Python looks it up whenever it calls. By then, its caller has the environment in a list, or hands none on."""
        try:
            caller = sys._getframe(1)
            environment: list[bytes] | None = caller.f_locals.get("env_list")
            told = self._told_to(caller, environment)
            if told is not None and environment is None:
                return partial(self._inheriting, told)
            if told is not None and environment is not None:
                known = dict(os.fsdecode(one).partition("=")[::2] for one in environment)
                environment[:] = _encoded(environment_for(known, told))
        except BaseException as error:  # noqa: BLE001 (the job runs on, and this child unwatched)
            pass_on(error)
        return self._plain

    def _told_to(self, caller: FrameType, environment: Sequence[bytes] | None) -> Settings | None:
        """Settings for the program that is about to start; None for one that has nothing to do with ranks."""
        words = [os.fsdecode(word) for word in caller.f_locals["args"]]
        name = os.path.basename(words[0])  # noqa: PTH119 (pathlib is slow to import)
        is_python = name.startswith("python")
        launcher = words[2] if is_python and words[1:2] == ["-m"] else name
        if launcher in _LAUNCHERS:
            return Settings({**vars(self._told), "launcher": _LAUNCHERS[launcher]})
        if environment is None:
            is_rank = SPAWNED in words and _is_rank_of_multiprocessing(caller)
            return self._told if is_rank and not _is_isolated(words) else None
        own = {b"=".join(pair) for pair in os.environb.items()}
        is_rank = any(one.startswith(_SAY_SO) and one not in own for one in environment)
        return self._told if is_python and is_rank and not _is_isolated(words) else None

    def _inheriting(self, told: Settings, *arguments: Any) -> int:
        """For a child that gets the environment of this process, as C has it: libraries may have changed it there."""
        try:
            changed = _encoded(environment_for(_environment_of_c(), told))
            arguments = (*arguments[:_ENVIRONMENT], changed, *arguments[_ENVIRONMENT + 1 :])
        except BaseException as error:  # noqa: BLE001
            pass_on(error)
        return self._plain(*arguments)


def _is_isolated(words: Sequence[str]) -> bool:
    """A Python that would not start in our folder, and so would not clear its environment of what it is told."""
    options = {word[1:] for word in takewhile(lambda word: word.startswith("-"), words[1:])}
    return any(set("EIS") & set(option) for option in options if set(option) <= _WITHOUT_VALUES)


def _is_rank_of_multiprocessing(caller: FrameType) -> bool:
    """A process that may have children of its own: workers of loaders may not. Those of serving engines may not either,
    but are known by the function that they run."""
    frame: FrameType | None = caller
    while frame is not None and frame.f_code.co_name != "_launch":
        frame = frame.f_back
    if frame is None:
        return False
    process = frame.f_locals["process_obj"]
    module = getattr(getattr(process, "_target", None), "__module__", None)
    return not process.daemon or str(module).partition(".")[0] in _ENGINES


def _environment_of_c() -> dict[str, str]:
    import ctypes

    variables = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    known: dict[str, str] = {}
    at = 0
    while (variable := variables[at]) is not None:
        name, _, value = os.fsdecode(variable).partition("=")
        known.setdefault(name, value)
        at += 1
    return known


def _encoded(environment: dict[str, str]) -> list[bytes]:
    return [os.fsencode(f"{name}={value}") for name, value in environment.items()]
