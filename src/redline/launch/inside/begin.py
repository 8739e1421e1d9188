"""In a process of the job: take a slot of the shared memory, and wait for torch to be imported."""

from __future__ import annotations

import atexit
import os
import sys
import time

from redline.launch.board import LEFT, PEAK_BYTES, PID, RANK, RESTART, STARTED_NS, Board, Slot
from redline.launch.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class Place:
    """This process on the board: its slot, the words that all share, and what it was told."""

    here: Place | None = None  # the one of this process, once it has begun

    def __init__(self, board: Board, number: int, slot: Slot, settings: Settings) -> None:
        self.board = board
        self.number = number
        self.slot = slot
        self.settings = settings
        self.pid = os.getpid()


def begin(text: str) -> None:
    """Watch this process, as far as it goes without torch."""
    settings = Settings.from_text(text)
    restart = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) if settings.elastic else 0
    number = _slot_number(settings, restart)
    board = Board.open(settings.board, settings.slots)
    slot = board.claim(number)
    slot.words[RANK] = settings.rank = int(os.environ.get("RANK", settings.rank))
    settings.world = int(os.environ.get("WORLD_SIZE", settings.world))
    slot.words[RESTART] = restart
    if restart and settings.folder:
        settings.folder += f"/restart-{restart}"
    slot.words[STARTED_NS] = time.perf_counter_ns()
    slot.words[PID] = os.getpid()
    from redline.launch.inside.stacks import answer_with_stacks

    answer_with_stacks(slot)
    place = Place.here = Place(board, number, slot, settings)
    atexit.register(_leave, place)
    sys.meta_path.insert(0, _AfterTorch(place))


def _leave(place: Place) -> None:
    """The process comes to its end in the orderly way."""
    if os.getpid() == place.pid:
        place.slot.words[PEAK_BYTES] = peak_bytes()
        place.slot.words[LEFT] = 1


def peak_bytes() -> int:
    """The most memory that this process had. `getrusage` tells more: it counts that of the launcher before exec."""
    with open("/proc/self/status", "rb") as file:  # noqa: PTH123 (pathlib is not imported here)
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith(b"VmHWM")), 0)


def _slot_number(settings: Settings, restart: int) -> int:
    """One for each process, and others for those that the launcher starts anew after a failure."""
    local = int(os.environ["LOCAL_RANK"]) if settings.elastic else 0
    return min(restart * settings.local_size + local, settings.slots - 1)


def _say_unwatched(place: Place, torch: ModuleType, error: Exception) -> None:
    """This torch has not what the hooks need; the summary says so."""
    import json

    version = str(getattr(torch, "__version__", "unknown"))
    why = f"torch {version} cannot be watched ({type(error).__name__}: {error})"[:300]
    facts = {"versions": {"torch": version}, "notes": [{"code": "failed", "text": why, "count": 1}]}
    place.slot.write_facts(json.dumps(facts).encode())


class _AfterTorch:
    """Finds no module; when torch is looked for, it sees to it that watching begins once torch is there."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch" or os.getpid() != self._place.pid:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec("torch")
        if spec is not None and spec.loader is not None:
            self._watch_after(spec)
        return spec

    def _watch_after(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        load = loader.exec_module  # type: ignore[union-attr]

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # type: ignore[union-attr]
            load(module)
            try:
                from redline.launch.inside.watch import watch

                watch(self._place)
            except Exception as error:  # noqa: BLE001 (the job runs on unwatched)
                _say_unwatched(self._place, module, error)

        loader.exec_module = exec_module  # type: ignore[union-attr, method-assign]
