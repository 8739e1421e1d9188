"""When a step ends: told by optimizers, the data loader, calls of the outermost module, or the user."""

from __future__ import annotations

from time import perf_counter_ns

from redline.capture import shared_state as at
from redline.capture.worker.counting.optimizer_cycles import OptimizerCycles
from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from redline.capture.worker.process_context import ProcessContext


class StepCounter:
    """Counts the steps of this process and keeps how long each took, in the shared state."""

    def __init__(
        self, context: ProcessContext, ended: Callable[[int, int, bool], None], restarted: Callable[[], None]
    ) -> None:
        self._shared = context.shared
        self._number = context.number
        self._words = context.slot.words
        self._entries = context.slot.entries
        self._ended = ended  # told the number of steps, the length of the last, and whether an optimizer is at work
        self._restarted = restarted
        self._cycles = OptimizerCycles()
        self._room = at.ENTRIES
        self._last_ns = 0
        self._pending_ns = 0  # an optimizer has closed a step; the loader will say where the next begins
        self._asked_ns = 0
        self._asks = 0
        self._loader_leads = False
        self._waited_ns = 0
        self._calls = 0

    def optimizer_stepped(self, optimizer: int, *, in_backward: bool = False) -> None:
        """`optimizer` is a number of its own; `in_backward` says that a backward pass is at work around it."""
        now_ns = perf_counter_ns()
        if not self._is_told(at.BY_OPTIMIZER):
            return
        ended = self._cycles.stepped(optimizer, now_ns, self._words[at.STEPS], in_backward=in_backward)
        if self._cycles.regrouped:
            self._restart(at.BY_OPTIMIZER)
        is_over = bool(ended) and ended[-1] == now_ns
        self._count_late(ended[:-1] if is_over else ended)
        if is_over:
            self._close(now_ns, at_work=True)

    def optimizers_skipped(self) -> None:
        """A step of the job came to its end in which no optimizer stepped, although all were meant to."""
        now_ns = perf_counter_ns()
        if not self._is_told(at.BY_OPTIMIZER):
            return
        self._count_late(self._cycles.cycle_is_over(self._words[at.STEPS]))
        self._close(now_ns, at_work=False)

    def _count_late(self, ended: tuple[int, ...]) -> None:
        """Steps of which it is known only now that they have ended: too late to begin or end a window with them."""
        for ended_ns in ended:
            if self._pending_ns:
                self._end(self._pending_ns, told=False)
            self._end(ended_ns, told=False)

    def _close(self, now_ns: int, *, at_work: bool) -> None:
        """A step is over, and the next begins: at once, or where the loader is asked for its data."""
        if self._pending_ns:  # nobody asked the loader since the step before
            self._loader_leads = False
            self._end(self._pending_ns, at_work=at_work)
        elif self._asks:
            self._loader_leads = True
        self._asks = 0
        if self._loader_leads:
            self._pending_ns = now_ns
        else:
            self._end(now_ns, at_work=at_work)

    def loader_asked(self) -> None:
        now_ns = perf_counter_ns()
        self._asks += 1
        if self._pending_ns:
            self._end(now_ns)
        self._asked_ns = perf_counter_ns()

    def loader_gave(self) -> None:
        waited_ns = perf_counter_ns() - self._asked_ns
        self._waited_ns += waited_ns
        self._words[at.LOADER_NS] += waited_ns
        self._words[at.BATCHES] += 1

    def called(self) -> None:
        """The outermost module was called, in a job without an optimizer."""
        now_ns = perf_counter_ns()
        if not self._is_told(at.BY_CALLS):
            return
        if self._calls:
            self._end(now_ns)
        else:
            self._last_ns = now_ns
        self._calls += 1

    def called_before(self, times: int) -> None:
        """Calls that were seen before it was known that they are the steps; nobody measured them."""
        if self._words[at.KIND] == at.BY_HAND:
            return
        self._restart(at.BY_CALLS)
        self._calls = times
        for _ in range(times - 1):
            self._end(0, told=False)
        self._last_ns = self._words[at.LAST_NS] = perf_counter_ns()

    def by_hand(self) -> None:
        now_ns = perf_counter_ns()
        if self._words[at.KIND] != at.BY_HAND:
            self._restart(at.BY_HAND)
        self._end(now_ns)

    def finish(self) -> None:
        """The process ends: what was begun and not yet counted is a step as well."""
        pending = self._cycles.cycle_is_over(self._words[at.STEPS]) if self._words[at.KIND] == at.BY_OPTIMIZER else ()
        if self._pending_ns:
            pending, self._pending_ns = (self._pending_ns, *pending), 0
        if pending:
            self._count_late(pending[:-1])
            self._end(pending[-1])
        elif self._words[at.KIND] == at.BY_CALLS and self._calls > self._words[at.STEPS]:
            self._end(perf_counter_ns())

    def _is_told(self, kind: int) -> bool:
        """Steps are told by this, from now on at the latest; nothing tells of them beside the script itself."""
        known = self._words[at.KIND]
        if known not in (kind, at.BY_HAND):
            self._restart(kind)
        return known != at.BY_HAND

    def _restart(self, kind: int) -> None:
        """Begin anew: all that was counted until now were no steps, or parts of the first."""
        words = self._words
        words[at.KIND] = kind
        words[at.STEPS] = words[at.FILLED] = self._last_ns = self._pending_ns = 0
        self._waited_ns = self._calls = 0
        self._restarted()

    def _end(self, now_ns: int, *, at_work: bool = False, told: bool = True) -> None:
        words = self._words
        self._pending_ns = 0
        began_ns = self._last_ns
        length_ns = now_ns - began_ns if began_ns else 0  # nobody knows when the first step began
        self._last_ns = words[at.LAST_NS] = now_ns
        steps = words[at.STEPS] = words[at.STEPS] + 1
        self._keep(length_ns, self._waited_ns)
        self._waited_ns = 0
        if told:
            self._ended(steps, length_ns, at_work)

    def _keep(self, length_ns: int, waited_ns: int) -> None:
        words, entries = self._words, self._entries
        filled, stride = words[at.FILLED], words[at.STRIDE]
        if stride > 1 and (words[at.STEPS] - 1) % stride:  # the entry was begun by another step
            entries[2 * filled - 2] += length_ns
            entries[2 * filled - 1] += waited_ns
            return
        if filled and filled % at.CHUNK_ENTRIES == 0 and stride == 1:
            self._set_aside(filled)
        if filled == self._room:
            filled = self._halve()
        place = 2 * filled
        entries[place], entries[place + 1] = length_ns, waited_ns
        words[at.FILLED] = filled + 1

    def _set_aside(self, filled: int) -> None:
        """More memory; where there is none, or a limit on files forbids it, what there is must do."""
        if filled < self._room:
            room, self._room = self._room, filled
            with tolerated(OSError):
                self._shared.set_aside(self._number, filled)
                self._room = room

    def _halve(self) -> int:
        """Make room: from now on an entry holds the sum of twice as many steps."""
        entries, half = self._entries, self._room // 2
        for entry in range(half):
            entries[2 * entry] = entries[4 * entry] + entries[4 * entry + 2]
            entries[2 * entry + 1] = entries[4 * entry + 1] + entries[4 * entry + 3]
        self._words[at.FILLED] = half
        self._words[at.STRIDE] *= 2
        return half
