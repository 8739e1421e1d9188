"""The flight recorder of torch.distributed: the last collectives of each rank, which NCCL's monitor writes to files.

A monitor writes when it gives up, or when somebody writes to a pipe that it listens to, if the user asked for one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")  # the older name comes second
_PIPES = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_OLDER_DEFAULT = "/tmp/nccl_trace_rank_"
_ANSWER_S = 2.0  # monitors look at their pipes once a second


def ask(ranks: Iterable[int], environment: Mapping[str, str] = os.environ) -> bool:
    """Have the monitors of these ranks write; whether any of them listens. It does not touch the job's threads."""
    asked = False
    for rank in ranks if environment.get(_PIPES) else ():
        with suppress(OSError):  # there is no pipe, or nobody listens to it
            descriptor = os.open(f"{environment[_PIPES]}{rank}.pipe", os.O_WRONLY | os.O_NONBLOCK)
            try:
                asked |= os.write(descriptor, b"1\n") > 0
            finally:
                os.close(descriptor)
    return asked


def recordings(since_s: float, *, asked: bool, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Files of recorders that were written since then, by the clock; those that were `asked` for may take a moment."""
    until_s = time.monotonic() + (_ANSWER_S if asked else 0.0)
    while not (paths := _written(since_s, environment)) and time.monotonic() < until_s:
        time.sleep(0.1)
    return paths


def _written(since_s: float, environment: Mapping[str, str]) -> tuple[str, ...]:
    paths = set()
    for prefix in _prefixes(environment):
        with suppress(OSError):
            near = prefix.parent.glob(f"{prefix.name}*")
            paths |= {str(path) for path in near if path.is_file() and path.stat().st_mtime >= since_s}
    return tuple(sorted(paths))


def _prefixes(environment: Mapping[str, str]) -> list[Path]:
    named = next((environment[name] for name in _PREFIXES if environment.get(name)), None)
    if named is not None:
        return [Path(named)]
    cache = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME', '/tmp')}/.cache"
    return [Path(cache) / "torch" / "comm_lib_trace_rank_", Path(_OLDER_DEFAULT)]
