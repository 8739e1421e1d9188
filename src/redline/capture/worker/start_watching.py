"""In a process of the job: take a slot of the shared memory, and wait for torch to be imported."""

from __future__ import annotations

import atexit
import os
import sys
import time
from contextlib import contextmanager
from functools import partial

from redline.capture.process import peak_bytes
from redline.capture.settings import Settings
from redline.capture.shared_state import LEFT, OFFSPRING, PEAK_BYTES, PID, RANK, RESTART, STARTED_NS, SharedState
from redline.capture.worker.after_import import AfterImport
from redline.capture.worker.child_ranks import SPAWNED, follow
from redline.capture.worker.exception_origin import pass_on, tolerated
from redline.capture.worker.process_context import ProcessContext
from redline.capture.worker.stacks import answer_with_stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from redline.capture.shared_state import ProcessSlot

_STDERR = 2


def begin(text: str) -> None:
    """Watch this process, as far as it goes without torch.

    One that the job has started is watched from torch on: of those that Ray starts in advance, most never import it.
    """
    settings = Settings.from_text(text)
    context = None if settings.offspring else _arrive(settings)
    if settings.is_file_guarded:
        _guard(settings, context)
    if settings.follow:
        follow(settings)
    AfterImport({"torch": partial(_watch, settings, context)})


def _guard(settings: Settings, context: ProcessContext | None) -> None:
    """Until torch is there, nothing else is told of the process."""
    from redline.capture.worker.file_guard import guard_files

    def tell(path: str) -> None:
        import json

        if context is not None:
            context.slot.write_facts(json.dumps({"wrote": path}).encode())

    guard_files(settings, None if context is None else tell)


def _arrive(settings: Settings) -> ProcessContext:
    """Take a slot, and say who this is."""
    restart = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) if settings.elastic else 0
    with _above_standard_streams():
        shared = SharedState.open(settings.board, settings.slots)
        number, slot = _claimed(shared, settings, restart)
        answer_with_stacks(slot)
    slot.words[RANK] = settings.rank = int(os.environ.get("RANK", settings.rank))
    slot.words[RESTART] = restart
    if restart and settings.folder:
        settings.folder += f"/restart-{restart}"
    slot.words[STARTED_NS] = time.perf_counter_ns()
    slot.words[PID] = os.getpid()
    context = ProcessContext.here = ProcessContext(shared, number, slot, settings)
    atexit.register(_leave, context)
    return context


@contextmanager
def _above_standard_streams() -> Iterator[None]:
    """Nothing opened meanwhile is taken for the job's input or output, where the job was started without."""
    held: list[int] = []
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        held.append(descriptor)
    os.close(descriptor)
    try:
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


def _leave(context: ProcessContext) -> None:
    """The process comes to its end in the orderly way."""
    if context.is_here():
        context.slot.words[LEFT] = 1
        with tolerated(BaseException):  # the script may have no file left to open
            context.slot.words[PEAK_BYTES] = peak_bytes()


def _claimed(shared: SharedState, settings: Settings, restart: int) -> tuple[int, ProcessSlot]:
    """A slot for each process, and others for those that the launcher starts anew after a failure."""
    if settings.offspring:
        number, slot = shared.claim_free()
        slot.words[OFFSPRING] = 1
        is_told = settings.launcher != "ray" and SPAWNED not in sys.orig_argv
        settings.rank = int(os.environ.get("LOCAL_RANK", "0")) if is_told else number  # torch.distributed may say more
        return number, slot
    local = int(os.environ["LOCAL_RANK"]) if settings.elastic else 0
    number = min(restart * settings.local_size + local, settings.slots - 1)
    return number, shared.claim(number)


def _say_unwatched(context: ProcessContext, torch: ModuleType, error: BaseException) -> None:
    """This torch has not what the hooks need; the summary says so."""
    import json

    version = str(getattr(torch, "__version__", "unknown"))
    why = f"torch {version} cannot be watched ({type(error).__name__}: {error})"[:300]
    facts = {"versions": {"torch": version}, "notes": [{"code": "failed", "text": why, "count": 1}]}
    context.slot.write_facts(json.dumps(facts).encode())


def _watch(settings: Settings, context: ProcessContext | None, torch: ModuleType) -> None:
    """Now that torch is there."""
    try:
        from redline.capture.worker.watch import watch

        context = context or _arrive(settings)
        watch(context)
    except BaseException as error:  # noqa: BLE001 (the job runs on unwatched)
        pass_on(error)
        if context is not None:
            with tolerated(BaseException):
                _say_unwatched(context, torch, error)
