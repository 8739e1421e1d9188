"""What a damaged trace is and what reading it must give; the words that every table of damage is written in."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from redline.timeline.problems import Reason
from tests.support.damage.text import Event, NoSuitableEventError, TraceText

READS = "reads"
REFUSED = "refused"
FILE_NAME = "rank-0.pt.trace.json"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a reader must make of one damaged file.

    Everything is relative to the clean seed: `reasons` are those that the damage adds to the seed's own ledger, and the
    rest of this value is how the events read from the file may differ from those read from the seed.
    """

    outcome: str  # READS, or REFUSED with an error
    error: str = ""  # when refused: the class in redline.errors, or a parent of it
    message_has: str = ""  # when refused: words of the message, in any case
    reasons: frozenset[Reason] = frozenset()  # exactly these
    counts: Mapping[Reason, int] = field(default_factory=dict)  # exactly these, where the count is well-defined
    lost_timed_events: int = 0  # exactly so many fewer ph=X events of any category, the "Trace" span included
    extra_files: tuple[tuple[str, bytes], ...] = ()  # the files of the other ranks
    same_kernels: bool = True  # as many kernels as in the seed, and as long but for:
    kernel_time_added_us: Decimal = Decimal(0)
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One damaged file and what reading it must give."""

    id: str  # the row of the specification and a slug: "F02-lone-backslash"
    row: str
    file_name: str
    data: bytes
    expected: Expected


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a recipe makes of one seed."""

    data: bytes
    expected: Expected
    file_name: str = FILE_NAME


@dataclass(frozen=True)
class Recipe:
    """One line of a table of damage: a name and the function that damages a seed."""

    id: str
    make: Callable[[TraceText], Made]


def reads(
    counts: Mapping[Reason, int] | None = None,
    *,
    also: Iterable[Reason] = (),
    lost: Iterable[Event] = (),
    extra_files: tuple[tuple[str, bytes], ...] = (),
    kernel_time_added_us: Decimal = Decimal(0),
    note: str = "",
) -> Expected:
    """The file reads: `counts` and `also` are the reasons with and without a definite count, zero counts left out."""
    counted = {reason: count for reason, count in (counts or {}).items() if count}
    gone = tuple(lost)
    return Expected(
        outcome=READS,
        reasons=frozenset(counted) | frozenset(also),
        counts=counted,
        lost_timed_events=sum(event.is_timed for event in gone),
        extra_files=extra_files,
        same_kernels=not any(event.is_kernel for event in gone),
        kernel_time_added_us=kernel_time_added_us,
        note=note,
    )


def refused(error: str, message_has: str = "", *, note: str = "") -> Expected:
    """The file is refused with this class of error (or a child of it) and these words in its message."""
    return Expected(outcome=REFUSED, error=error, message_has=message_has, same_kernels=False, note=note)


def edit_one(
    case_id: str,
    pick: Callable[[TraceText], Event],
    edit: Callable[[Event], str],
    counts: Mapping[Reason, int] | None = None,
    *,
    drops: bool = False,
    note: str = "",
) -> Recipe:
    """Damage the text of one event; `drops` when no reader can keep it."""

    def make(trace: TraceText) -> Made:
        event = pick(trace)
        damaged = edit(event)
        if damaged == event.text:
            raise NoSuitableEventError(f"{case_id} has no place in the seed")
        expected = reads(counts, lost=[event] if drops else [], note=note)
        return Made(data=trace.render({event.index: damaged}), expected=expected)

    return Recipe(case_id, make)


def edit_trace(
    case_id: str,
    edit: Callable[[TraceText], TraceText],
    counts: Mapping[Reason, int] | None = None,
    *,
    also: Iterable[Reason] = (),
    file_name: str = FILE_NAME,
    note: str = "",
) -> Recipe:
    """Damage the metadata or the frame of a trace, which costs no event."""

    def make(trace: TraceText) -> Made:
        return Made(data=edit(trace).render(), expected=reads(counts, also=also, note=note), file_name=file_name)

    return Recipe(case_id, make)
