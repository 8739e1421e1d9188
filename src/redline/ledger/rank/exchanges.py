"""One rank's communication: every exchange with its size and partners, when it ran, and how much of it was exposed."""

import hashlib
import re
from collections.abc import Iterable
from typing import Self

import msgspec
import numpy as np

from redline.ledger.accounts import Account
from redline.ledger.rank.activity import DeviceActivity, Mask
from redline.ledger.rank.backward_passes import AFTER_BACKWARD, Passes
from redline.ledger.rank.digest_limits import Described, ElementBytes
from redline.ledger.rank.idle import Idle
from redline.ledger.rank.packing import packed_small, squeezed, unpacked, unsqueezed
from redline.timeline.table import I32, I64, Column, Table, column
from redline.timeline.timeline import NONE, Timeline
from redline.trace.schema import ENDS_TOGETHER
from redline.values import dataclass

POINT_TO_POINT = "point_to_point"
REDUCTIONS = frozenset({"all_reduce", "reduce_scatter"})
"""What gradients go through."""
_NUMBERED_BY_RANK = frozenset({POINT_TO_POINT, "send", "receive", "send_receive"})
"""Every rank counts its own sends and receives, so that their numbers say nothing to others."""
SPENT = ("compute", "communication", "input", "host")
"""What a rank may have done between two exchanges, as far as a table of exchanges tells it."""
_LONGEST_GROUP = 48  # characters of a group's ranks that are kept; longer ones by their hash

# As c10d writes the types of tensors.
_ELEMENT_BYTES = {
    **dict.fromkeys(("Double", "Long", "ComplexFloat", "double", "long int"), 8),
    **dict.fromkeys(("Float", "Int", "UInt32", "float", "int"), 4),
    **dict.fromkeys(("BFloat16", "Half", "Short", "c10::BFloat16", "c10::Half"), 2),
    **dict.fromkeys(("Byte", "Char", "Bool", "unsigned char", "signed char", "bool"), 1),
}
_FLOAT8 = re.compile(r"Float8")

_MOST_BYTES = 1 << 50  # of an exchange: a file that tells of more is wrong, and must not break sums


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveSeries:
    """What all exchanges of one kind have in common."""

    collective: str
    group: str  # the ranks of the group, or its name; of a send or receive: "0->4"
    group_size: Described  # 0 where it is not known
    in_elements: Described
    out_elements: Described
    element_bytes: ElementBytes  # 0 where it is not known
    dtype: str = ""  # as c10d writes it, e.g. Float; "" where it is not known

    @property
    def payload_bytes(self) -> int:
        """The size by the convention of nccl-tests: of the larger side of the exchange; 0 where it is not known."""
        elements = max(self.in_elements, self.out_elements)
        return min(elements * self.element_bytes, _MOST_BYTES) if elements > 0 else 0

    @property
    def ranks(self) -> tuple[int, ...]:
        """Of the group, or the sender and the receiver; empty where they are not known."""
        if self.collective == POINT_TO_POINT:
            source, _, destination = self.group.partition("->")
            return int(source), int(destination)
        ranks, is_cut = _rank_list(self.group)
        return () if is_cut else tuple(ranks)

    @property
    def ends_together(self) -> bool:
        return self.collective in ENDS_TOGETHER

    @property
    def matching_key(self) -> tuple[str, str, int]:
        """Equal on all ranks that take part: to an all-to-all they may bring different amounts."""
        size = {
            "all_gather": self.out_elements,
            "all_reduce": self.in_elements,
            "reduce_scatter": self.in_elements,
        }.get(self.collective, NONE)
        return self.collective, self.group, size


class Exchanges(Table):
    """Communicating spans in order of start, on the clock of the ledger; times may be held in 32 bits."""

    start_ns: I64 = column(np.int64)
    end_ns: I64 = column(np.int64)
    series: Column = column(np.int32)
    hidden_ns: I64 = column(np.int64)  # the rank computed meanwhile
    exposed_ns: I64 = column(np.int64)  # it did not, and no earlier exchange was still open
    backward: Column = column(np.int32)  # launched in the last backward pass before an optimizer (1), in the one before
    # that (2) and so on, or one of FORWARD, OPTIMIZER, AFTER_BACKWARD
    sequence: Column = column(np.int64)  # its number in its group, equal on all ranks; -1 where that is not recorded

    def narrow(self) -> Self:
        """The same in less room."""
        return type(self)(**{name: _narrow(array) for name, array in self.columns().items()})


def _narrow(array: Column) -> Column:
    """Numbers in 16 bits and times in 32, where they and their differences fit; a copy, whatever they are part of."""
    bits = 16 if array.dtype == np.int32 else 32
    fits = AFTER_BACKWARD <= array.min(initial=0) and array.max(initial=0) < 2 ** (bits - 1) - 1
    return array.astype(f"i{bits // 8}" if fits else array.dtype)


class Spent(Table):
    """What a rank had spent since its window began, in whole microseconds, when each exchange began and ended."""

    compute_at_start_us: I64 = column(np.int64)
    compute_at_end_us: I64 = column(np.int64)
    communication_at_start_us: I64 = column(np.int64)  # exposed; copies too
    communication_at_end_us: I64 = column(np.int64)
    input_at_start_us: I64 = column(np.int64)
    input_at_end_us: I64 = column(np.int64)
    host_at_start_us: I64 = column(np.int64)
    host_at_end_us: I64 = column(np.int64)


@dataclass(frozen=True, slots=True)
class PackedSpent:
    """The same in a tenth of the room: it is asked for once, when all ranks are there."""

    data: bytes

    @classmethod
    def of(cls, spent: Spent) -> "PackedSpent":
        return cls.of_rows(np.vstack(list(spent.columns().values())))

    @classmethod
    def of_rows(cls, rows: I64) -> "PackedSpent":
        """Of a table with a row for each column."""
        return cls(squeezed(packed_small(rows)))

    def unpacked(self) -> Spent:
        layout = Spent.layout()
        return Spent(**dict(zip(layout, unpacked(unsqueezed(self.data), len(layout)), strict=True)))


def exchanges_of(
    timeline: Timeline, activity: DeviceActivity, idle: Idle, passes: Passes
) -> tuple[Exchanges, Spent, tuple[CollectiveSeries, ...]]:
    owned = activity.communication
    named = series_of(timeline, owned.row)
    start_ns, end_ns = timeline.spans.start_ns[owned.row], timeline.spans.end_ns[owned.row]
    exchanges = Exchanges(
        start_ns=start_ns,
        end_ns=end_ns,
        series=named.series,
        hidden_ns=activity.computing.overlap_with(start_ns, end_ns),
        exposed_ns=activity.communicating.overlap_with(owned.start_ns, owned.end_ns),
        backward=_backward(timeline, owned.row, passes, named.series, _are(REDUCTIONS, named.names, named.series)),
        sequence=named.sequence,
    )
    return exchanges, Spent(**_spent(activity, idle, start_ns, end_ns)), named.names


@dataclass(frozen=True, kw_only=True)
class NamedExchanges:
    """What ranks find each other's exchanges by."""

    series: Column  # numbers of these
    sequence: Column  # of each in its group; -1 where it is not recorded, or says nothing to other ranks
    names: tuple[CollectiveSeries, ...]


def series_of(timeline: Timeline, rows: I64) -> NamedExchanges:
    """Of these communicating spans."""
    names = _Names(timeline)
    place = np.searchsorted(timeline.communications.row, rows)
    keys: dict[CollectiveSeries, int] = {}
    series = np.array([keys.setdefault(names.series(position), len(keys)) for position in place.tolist()], np.int32)
    sequence = np.where(_are(_NUMBERED_BY_RANK, keys, series), NONE, timeline.communications.sequence[place])
    return NamedExchanges(series=series, sequence=sequence, names=tuple(keys))


def _are(collectives: frozenset[str], keys: Iterable[CollectiveSeries], series: Column) -> Mask:
    """Which exchanges are of one of these kinds."""
    meant: Mask = np.array(
        [collective_series.collective in collectives for collective_series in keys] or [False], bool
    )[series]
    return meant


def _backward(timeline: Timeline, rows: I64, passes: Passes, series: Column, reduces: Mask) -> I32:
    """The pass that each row was launched in; gradients that autograd flushes after its last node belong to it.

    What was launched before the recording is taken for what most of its like are.
    """
    launched_ns, call, is_known = _launched(timeline, rows)
    # On a GPU a thread of its own runs the nodes, and flushes; the script's thread does not.
    by_script = (call != rows) & ~np.isin(timeline.spans.lane[call], passes.lanes)
    flushed = reduces & ~by_script
    pass_number: I32 = np.where(flushed, passes.at_or_after(launched_ns), passes.at(launched_ns)).astype(np.int32)
    for number in np.unique(series[~is_known]).tolist():
        alike = series == number
        values, times = np.unique(pass_number[alike & is_known], return_counts=True)
        if len(values):
            pass_number[alike & ~is_known] = values[times.argmax()]
    return pass_number


def _launched(timeline: Timeline, rows: I64) -> tuple[I64, I64, Mask]:
    """When the host launched each of these rows, or when it began on the host; the call, or the row itself; and whether
    it is known. If not, when it began."""
    work, spans = timeline.device_work, timeline.spans
    place = np.searchsorted(work.row, rows)
    on_device = np.append(work.row, NONE)[place] == rows
    launch = np.where(on_device, np.append(work.launch, NONE)[place], NONE)
    call = np.where(launch == NONE, rows, launch)
    return spans.start_ns[call], call, ~on_device | (launch != NONE)


def _spent(activity: DeviceActivity, idle: Idle, start_ns: I64, end_ns: I64) -> dict[str, I64]:
    """For each of SPENT, what of it lies before each start and before each end."""
    times = {
        "compute": (activity.computing,),
        "communication": (activity.communicating, activity.copying),
        "input": (idle.accounts[Account.INPUT],),
        "host": (idle.accounts[Account.HOST], idle.accounts[Account.SYNC]),
    }
    begin_ns = np.full(len(start_ns), activity.window_ns[0])
    return {
        f"{name}_at_{edge}_us": sum((time.overlap_with(begin_ns, until_ns) for time in times[name]), start=0 * begin_ns)
        // 1000
        for name in SPENT
        for edge, until_ns in (("start", start_ns), ("end", end_ns))
    }


class _Names:
    """Series of communicating spans; texts are looked at once."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._operators = dict(zip(timeline.operators.row.tolist(), timeline.operators.dtypes.tolist(), strict=True))
        self._known: dict[tuple[int, ...], CollectiveSeries] = {}

    def series(self, index: int) -> CollectiveSeries:
        comms = self._timeline.communications
        columns = ("collective", "group", "group_ranks", "group_size", "in_elements", "out_elements", "dtype")
        key = (
            *(int(getattr(comms, name)[index]) for name in (*columns, "source", "destination")),
            self._operators.get(int(comms.row[index]), NONE),
        )
        if key not in self._known:
            self._known[key] = self._described(*key)
        return self._known[key]

    def _described(  # noqa: PLR0913, PLR0917 (the columns of one row)
        self,
        collective: int,
        group: int,
        group_ranks: int,
        group_size: int,
        in_elements: int,
        out_elements: int,
        dtype: int,
        source: int,
        destination: int,
        recorded_dtypes: int,
    ) -> CollectiveSeries:
        text = self._timeline.text
        ranks, is_cut = _rank_list(text(group_ranks))
        size = self._size(group_size, [] if is_cut else ranks)
        configured = self._timeline.metadata.group_ranks.get(text(group), ())
        partners = self._partners(
            text(collective), list(configured) if is_cut and configured else ranks, source, destination
        )
        # Groups of different sizes may begin with the same ranks.
        members = f"{text(group_ranks)} of {size}" if is_cut else text(group_ranks)
        return CollectiveSeries(
            collective=POINT_TO_POINT if partners else text(collective) or "unknown",
            group=partners or _short(members or text(group)),
            group_size=2 if partners else size,
            in_elements=in_elements,
            out_elements=out_elements,
            element_bytes=_element_bytes(text(dtype), text(recorded_dtypes)),
            dtype=_dtype(text(dtype), text(recorded_dtypes)),
        )

    def _size(self, recorded: int, ranks: list[int]) -> int:
        return recorded if recorded > 0 else len(ranks) or self._timeline.metadata.world_size

    def _partners(self, collective: str, ranks: list[int], source: int, destination: int) -> str:
        """ "0->4" for a send or receive between known ranks, "" for anything else."""
        rank, world = self._timeline.rank, self._timeline.metadata.world_size
        if rank < 0 or collective not in ("send", "receive"):
            return ""
        peer = destination if collective == "send" else source
        if peer == NONE and world == 2:
            other = 1 - rank
        elif peer == NONE or (ranks and peer >= len(ranks)):
            return ""
        else:  # numbered within the group
            other = ranks[peer] if ranks else peer
        return f"{rank}->{other}" if collective == "send" else f"{other}->{rank}"


def _rank_list(text: str) -> tuple[list[int], bool]:
    """The ranks of a group, and whether the profiler cut the list ("[0, 1, ...]"): then only its beginning is known."""
    known, cut, _ = text.partition(", ...")
    try:
        return msgspec.json.decode(f"{known}]" if cut else known, type=list[int]) if text else [], bool(cut)
    except msgspec.MsgspecError:  # not a list of ranks
        return [], bool(cut)


def _short(group: str) -> str:
    if len(group) <= _LONGEST_GROUP:
        return group
    return group[:16] + "#" + hashlib.blake2b(group.encode(), digest_size=8).hexdigest()


def _element_bytes(dtype: str, recorded: str) -> int:
    name = _dtype(dtype, recorded)
    return 1 if _FLOAT8.search(name) else _ELEMENT_BYTES.get(name, 0)


def _dtype(dtype: str, recorded: str) -> str:
    """As it was described; else the first known type among those of the recorded arguments."""
    if dtype or not recorded:
        return dtype
    types = (name for name in re.findall(r'"([^"]+)"', recorded) if name in _ELEMENT_BYTES)
    return next(types, "")
