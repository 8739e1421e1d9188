"""The account of each allocation of a trace: by what the job says it holds, by the code around it, and by its life.

Proofs, the strongest first: a parameter, gradient or state that the job named; a call of a collective or of a loss; the
phase of the step; and how long the block lived (what dies in the operator that made it is a temporary, what the
backward pass leaves to the optimizer is a gradient). What none of them proves is unknown.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.allocations import BEFORE
from redline.ledger.memory.attribution import ACCOUNTS
from redline.ledger.memory.device_memory import PeakEvidence
from redline.ledger.memory.trace_memory import UNSEEN, TraceMemory
from redline.ledger.rank.backward_passes import Passes, passes_of
from redline.ledger.rank.host_phases import PHASES, HostPhases, Phase, host_phases_of
from redline.ledger.rank.name_matching import matching
from redline.timeline.host_evidence import HeldKind
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import innermost_at, nearest_of
from redline.timeline.table import grouped
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema
from redline.trace.call_sites import is_their_code
from redline.values import dataclass

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]
_NUMBER = {account: number for number, account in enumerate(ACCOUNTS)}
_OF_HELD = {
    HeldKind.PARAMETER: MemoryAccount.PARAMETERS,
    HeldKind.BUFFER: MemoryAccount.PARAMETERS,
    HeldKind.GRADIENT: MemoryAccount.GRADIENTS,
    HeldKind.OPTIMIZER_STATE: MemoryAccount.OPTIMIZER_STATES,
    HeldKind.BUCKET: MemoryAccount.COMMUNICATION,
}
_NEVER_NS = np.iinfo(np.int64).max
_CASTS = 2  # activations that may be logits: before and after they are cast
_OF_A_STEP = (MemoryAccount.ACTIVATIONS, MemoryAccount.LOGITS)  # that no later step reads


@dataclass(frozen=True, kw_only=True)
class StepPhases:
    """As the host saw them."""

    passes: Passes
    host: HostPhases
    steps: Intervals

    @property
    def forward_share(self) -> float:
        """Of the time of all steps: what it costs to compute all of the forward passes again."""
        forward = self.host.when(Phase.FORWARD) & self.steps
        return forward.length_ns / max(self.steps.length_ns, 1)


def step_phases_of(timeline: Timeline) -> StepPhases:
    spans, steps, passes = timeline.spans, timeline.steps, passes_of(timeline)
    window_ns = (int(spans.start_ns.min()), int(spans.end_ns.max())) if len(spans) else (0, 1)
    return StepPhases(
        passes=passes,
        host=host_phases_of(timeline, passes, window_ns),
        steps=Intervals.union_of(steps.start_ns, steps.end_ns),
    )


@dataclass(frozen=True, kw_only=True)
class TraceAccounts:
    """Of each allocation its account, and what was around it when it was made."""

    account: I64  # place in ACCOUNTS
    site: tuple[str, ...]  # the innermost function of the script, else the operator; "" where nothing is known
    module: tuple[str, ...]  # the module that the script calls and the part of it; "" outside of modules


def trace_accounts(memory: TraceMemory, phases: StepPhases) -> TraceAccounts:
    return _Attribution(memory, phases).result()


class _Attribution:
    """All allocations at once."""

    def __init__(self, memory: TraceMemory, phases: StepPhases) -> None:
        self._memory, self._passes, timeline = memory, phases.passes, memory.timeline
        table, events = memory.allocations, memory.events
        self._is_new: Mask = table.born != BEFORE
        self._birth_ns = np.where(self._is_new, _at(events.at_ns, table.born), -_NEVER_NS)
        self._death_ns = np.where(table.died < len(events), _at(events.at_ns, table.died), _NEVER_NS)
        self._around = _Around(timeline, _at(events.lane, table.born), self._birth_ns, self._is_new)
        self._phase = phases.host.at(self._birth_ns)
        self._account = np.full(len(table), _NUMBER[MemoryAccount.UNKNOWN], np.int64)

    def result(self) -> TraceAccounts:
        self._of_forward()
        self._of_backward()
        self._of_optimizer()
        self._of_input()
        self._of_exchanges()
        self._of_loss()
        self._of_what_is_held()
        return TraceAccounts(account=self._account, site=tuple(self._sites()), module=self._around.modules)

    def _sites(self) -> Iterator[str]:
        """Of what a model holds the part of the model that it is of, else the code."""
        names = self._memory.timeline.evidence.held.names
        for site, name in zip(self._around.sites, self._memory.held_name.tolist(), strict=True):
            yield site if name == NONE or not names[name] else _part_of(names[name])

    def _set(self, rows: Mask, account: MemoryAccount) -> None:
        self._account[rows] = _NUMBER[account]

    def _is_in(self, phase: Phase) -> Mask:
        is_in: Mask = self._is_new & (self._phase == PHASES.index(phase))
        return is_in

    def _of_forward(self) -> None:
        """What its operator made and outlives it is an activation, if a module computed it or a gradient will."""
        made = self._is_in(Phase.FORWARD) & self._around.has_operator
        is_temporary = self._death_ns <= self._around.operator_end_ns
        is_computed = self._around.is_in_module | self._around.is_differentiable
        self._set(made & is_temporary, MemoryAccount.TEMPORARIES)
        self._set(made & ~is_temporary & is_computed, MemoryAccount.ACTIVATIONS)
        self._set(made & ~is_temporary & ~is_computed, MemoryAccount.INPUTS)

    def _of_backward(self) -> None:
        """What is still there when the optimizer steps, or goes with zero_grad, is a gradient."""
        made = self._is_in(Phase.BACKWARD)
        number = np.searchsorted(self._passes.backward.start, self._birth_ns, side="right") - 1
        ends_ns = np.append(self._passes.over_ns, _NEVER_NS)[np.maximum(number, 0)]
        until_ns = np.append(self._passes.until_ns, _NEVER_NS)[np.maximum(number, 0)]
        self._set(made, MemoryAccount.BACKWARD)
        self._set(made & (self._death_ns <= ends_ns), MemoryAccount.TEMPORARIES)
        if len(self._passes.optimizer):
            is_left = self._death_ns > until_ns
            self._set(made & is_left, MemoryAccount.GRADIENTS)

    def _of_optimizer(self) -> None:
        """What the optimizer made and keeps is its state."""
        made = self._is_in(Phase.OPTIMIZER)
        steps = self._passes.optimizer
        number = np.searchsorted(steps.start, self._birth_ns, side="right") - 1
        is_step = (number >= 0) & (self._birth_ns < np.append(steps.end, 0)[number])
        ends_ns = np.append(steps.end, _NEVER_NS)[number]
        self._set(made, MemoryAccount.TEMPORARIES)
        self._set(made & is_step & (self._death_ns > ends_ns), MemoryAccount.OPTIMIZER_STATES)

    def _of_input(self) -> None:
        """What the loader made; and what was made for the next forward pass, and was let go some time."""
        self._set(self._is_in(Phase.INPUT), MemoryAccount.INPUTS)
        made = self._is_in(Phase.BETWEEN) & self._around.has_operator
        is_temporary = self._death_ns <= self._around.operator_end_ns
        self._set(made & is_temporary, MemoryAccount.TEMPORARIES)
        self._set(made & ~is_temporary & (self._death_ns != _NEVER_NS), MemoryAccount.INPUTS)

    def _of_exchanges(self) -> None:
        self._set(self._around.is_exchange, MemoryAccount.COMMUNICATION)

    def _of_loss(self) -> None:
        """Of the loss, and with as many elements as it takes: the logits themselves."""
        is_temporary = self._account == _NUMBER[MemoryAccount.TEMPORARIES]
        is_gradient = self._account == _NUMBER[MemoryAccount.GRADIENTS]
        self._set(
            self._around.is_loss & ~is_gradient & ~(is_temporary & self._is_in(Phase.FORWARD)), MemoryAccount.LOGITS
        )
        self._of_logits()

    def _of_logits(self) -> None:
        """The last activations before the largest tensors of the loss, as large as these in 64, 32 or 16 bits."""
        size = self._memory.allocations.size_bytes
        of_loss = self._account == _NUMBER[MemoryAccount.LOGITS]
        of_loss &= self._is_in(Phase.FORWARD)
        largest = int(size[of_loss].max(initial=0))
        made = np.flatnonzero(self._account == _NUMBER[MemoryAccount.ACTIVATIONS])
        made = made[np.argsort(self._birth_ns[made], kind="stable")]
        before = np.searchsorted(self._birth_ns[made], self._birth_ns[of_loss & (size == largest)])
        last = np.unique(np.concatenate([before - back for back in range(1, _CASTS + 1)]))
        last = last[last >= 0]
        # An operator that makes two, as a compiled model does, has not cast one to the other: sizes meet by chance.
        follows = np.append(self._around.operator[made[1:]], NONE)[last]
        is_cast = np.isin(last + 1, before) | (self._around.operator[made[last]] != follows)
        rows = made[last[is_cast]]
        is_logits = np.isin(size[rows], (2 * largest, largest, largest // 2))
        self._account[rows[is_logits]] = _NUMBER[MemoryAccount.LOGITS]

    def _of_what_is_held(self) -> None:
        for kind, account in _OF_HELD.items():
            self._set(self._memory.held == kind, account)
        # What the loop of the script holds beside them, and the pass before left, has no birth that could be looked at.
        is_unsaid = ~self._is_new & (self._memory.held == UNSEEN)
        cleared = self._is_cleared()
        self._set(is_unsaid & cleared, MemoryAccount.GRADIENTS)

    def _is_cleared(self) -> Mask:
        """What goes in a zero_grad."""
        timeline = self._memory.timeline
        rows = timeline.spans.rows_of(Kind.ANNOTATION)
        rows = rows[matching(timeline, rows, schema.is_zero_grad)]
        start_ns, end_ns = timeline.spans.start_ns[rows], timeline.spans.end_ns[rows]
        number = np.searchsorted(start_ns, self._death_ns, side="right") - 1
        cleared: Mask = (number >= 0) & (self._death_ns <= np.append(end_ns, 0)[number])
        return cleared


class _Around:
    """The code that each allocation was made in."""

    def __init__(self, timeline: Timeline, lane: I64, birth_ns: I64, is_new: Mask) -> None:
        self._timeline, spans = timeline, timeline.spans
        self._inner = _innermost(timeline, lane, birth_ns, is_new, Kind.OPERATOR, Kind.PYTHON)
        region = _innermost(timeline, lane, birth_ns, is_new, Kind.ANNOTATION)
        is_operator = spans.kind == Kind.OPERATOR
        above = nearest_of(is_operator, spans.parent, spans.parent)
        self.operator = self._nearest(is_operator & (above == NONE))  # the outermost
        self.has_operator: Mask = self.operator != NONE
        self.operator_end_ns: I64 = np.where(self.has_operator, spans.end_ns[self.operator], -_NEVER_NS)
        self.is_loss: Mask = self._nearest(self._named(is_operator, schema.is_loss)) != NONE
        exchanges = self._named(is_operator | (spans.kind == Kind.ANNOTATION), schema.is_exchange)
        self.is_exchange: Mask = (self._nearest(exchanges & is_operator) != NONE) | (
            (region != NONE) & exchanges[region]
        )
        self._module = self._nearest(self._named(spans.kind == Kind.PYTHON, schema.is_module_call))
        self.is_in_module: Mask = self._module != NONE
        self.is_differentiable: Mask = self._has_sequence()
        self.sites = self._sites()
        self.modules = self._modules()

    def _named(self, chosen: Mask, is_meant: Callable[[str], bool]) -> Mask:
        rows = np.flatnonzero(chosen)
        named = np.zeros(len(chosen), bool)
        named[rows] = matching(self._timeline, rows, is_meant)
        return named

    def _nearest(self, chosen: Mask) -> I64:
        return nearest_of(chosen, self._timeline.spans.parent, self._inner)

    def _has_sequence(self) -> Mask:
        """Whether autograd numbered the operator: its result will need a gradient."""
        operators = self._timeline.operators
        numbered = np.zeros(len(self._timeline.spans) + 1, bool)
        numbered[operators.row[operators.sequence >= 0]] = True
        has_number: Mask = self._nearest(numbered[:-1]) != NONE
        return has_number

    def _sites(self) -> tuple[str, ...]:
        theirs = self._nearest(self._named(self._timeline.spans.kind == Kind.PYTHON, is_their_code))
        chosen = np.where(theirs != NONE, theirs, self.operator)
        return self._texts(chosen)

    def _modules(self) -> tuple[str, ...]:
        """The outermost module and the one that it calls: its blocks, in most models."""
        parent = self._timeline.spans.parent
        is_module = self._named(self._timeline.spans.kind == Kind.PYTHON, schema.is_module_call)
        outer, part = self._module, self._module
        while True:
            above = nearest_of(is_module, parent, np.where(outer == NONE, NONE, np.append(parent, NONE)[outer]))
            if (above == NONE).all():
                break
            part = np.where(above == NONE, part, outer)
            outer = np.where(above == NONE, outer, above)
        whole = [name.removeprefix(schema.MODULE_CALL) for name in self._texts(outer)]
        inner = [name.removeprefix(schema.MODULE_CALL) for name in self._texts(part)]
        return tuple(a if a == b else f"{a}/{b}" for a, b in zip(whole, inner, strict=True))

    def _texts(self, rows: I64) -> tuple[str, ...]:
        texts, name = self._timeline.texts, self._timeline.spans.name
        return tuple(_short(texts[name[row]]) if row != NONE else "" for row in rows.tolist())


def _part_of(parameter: str) -> str:
    """`blocks.3` of `blocks.3.attention.weight`, `embed` of `embed.weight`."""
    words = parameter.split(".")
    return ".".join(words[:2] if len(words) > 2 and words[1].isdecimal() else words[:1])


def _short(name: str) -> str:
    """`train.py:12 forward` of a Python function, without its folders; any other name as it is."""
    place, colon, function = name.partition("): ")
    file, _, line = place.rpartition("(")
    return f"{file.rpartition('/')[2]}:{line} {function}" if colon and line.isdecimal() else name


def _innermost(timeline: Timeline, lane: I64, at_ns: I64, is_meant: Mask, *kinds: Kind) -> I64:
    """Row of the innermost span of these kinds around each moment of a thread, NONE for none."""
    spans = timeline.spans
    rows = spans.rows_of(*kinds)
    by_lane = dict(grouped(spans.lane[rows]))
    found = np.full(len(at_ns), NONE, np.int64)
    meant = np.flatnonzero(is_meant)
    for number, places in grouped(lane[meant]):
        if number in by_lane:
            mine = rows[by_lane[number]]
            inner = innermost_at(at_ns[meant[places]], spans.start_ns[mine], spans.end_ns[mine])
            found[meant[places]] = np.where(inner == NONE, NONE, mine[inner])
    return found


def _at(values: NDArray[np.signedinteger[Any]], places: I64) -> I64:
    """Values at these places; what is outside has any value."""
    if not len(values):
        return np.zeros(len(places), np.int64)
    taken: I64 = values[np.clip(places, 0, len(values) - 1)].astype(np.int64)
    return taken


def peak_evidence(memory: TraceMemory, told: TraceAccounts, phases: StepPhases) -> PeakEvidence:
    """Only of jobs that train."""
    if not len(phases.passes.backward) or memory.peak < 0:
        return PeakEvidence()
    return _Peak(memory, told, phases).evidence()


class _Peak:
    """The blocks in use at the peak."""

    def __init__(self, memory: TraceMemory, told: TraceAccounts, phases: StepPhases) -> None:
        self._memory, self._told, self._phases = memory, told, phases
        self._rows = memory.allocations.at(memory.peak)
        self._at_ns = int(memory.events.at_ns[memory.peak])
        self._account = told.account[self._rows]
        self._size_bytes = memory.allocations.size_bytes[self._rows]
        self._born = memory.allocations.born[self._rows]
        self._born_ns: I64 = np.where(self._born == BEFORE, -1, memory.events.at_ns[np.maximum(self._born, 0)])

    def evidence(self) -> PeakEvidence:
        is_earlier, is_left_over = self._earlier()
        sites = Counter[str]()
        for row in self._rows[is_left_over].tolist():
            sites[self._told.site[row]] += int(self._memory.allocations.size_bytes[row])
        phase = PHASES[int(self._phases.host.at(np.array([self._at_ns]))[0])]
        return PeakEvidence(
            phase=phase,
            stale_gradients_bytes=self._stale_gradients_bytes(phase),
            earlier_bytes={name: self._sum(is_earlier & self._is_of(name)) for name in _OF_A_STEP},
            left_over_bytes=self._sum(is_left_over),
            left_over_site=sites.most_common(1)[0][0] if sites else "",
        )

    def _sum(self, chosen: Mask) -> int:
        return int(self._size_bytes[chosen].sum())

    def _is_of(self, account: MemoryAccount) -> Mask:
        is_of: Mask = self._account == ACCOUNTS.index(account)
        return is_of

    def _stale_gradients_bytes(self, phase: Phase) -> int:
        """In a forward pass all that are there; in a backward pass those that were there when it began."""
        if phase not in (Phase.FORWARD, Phase.BACKWARD):
            return 0
        backward = self._phases.passes.backward
        begun = int(np.searchsorted(backward.start, self._at_ns, side="right")) - 1
        is_running = begun >= 0 and self._at_ns < backward.end[begun]
        since_ns = int(backward.start[begun]) if is_running else self._at_ns
        return self._sum((self._born_ns < since_ns) & self._is_of(MemoryAccount.GRADIENTS))

    def _earlier(self) -> tuple[Mask, Mask]:
        """What was made in steps before that of the peak, for these steps alone; and what of it went in this one."""
        steps = self._memory.timeline.steps
        number = int(np.searchsorted(steps.start_ns, self._at_ns, side="right")) - 1
        nothing = np.zeros(len(self._rows), bool)
        if number < 0:
            return nothing, nothing
        is_of_a_step = self._is_of(_OF_A_STEP[0]) | self._is_of(_OF_A_STEP[1])
        is_earlier: Mask = is_of_a_step & (self._born != BEFORE) & (self._born_ns < int(steps.start_ns[number]))
        last = self._memory.moment(steps.end_ns[number : number + 1])[0]
        return is_earlier, is_earlier & (self._memory.allocations.died[self._rows] <= last)
