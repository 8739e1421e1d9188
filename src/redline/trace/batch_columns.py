"""Batches made into columns with numbers of their own, and how those become part of the columns of a file.

What comes out is the same as if the file had been read by one process: texts, lanes and rows get the numbers that they
would have got, in the order of the file.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from redline.timeline.problems import Problem, ProblemLog
from redline.timeline.table import Column, Table
from redline.timeline.timeline import NONE, Spans
from redline.trace.column_builder import LaneKey
from redline.trace.columns import Collector
from redline.trace.times import Decoded
from redline.values import dataclass

_UNMET = -2
_TEXTS = frozenset(
    {"name", "category", "shapes", "dtypes", "strides", "values", "site", "grid", "block"}
    | {"collective", "dtype", "group", "group_ranks"}
)
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class PackedGroup:
    """The events of one phase and category in a batch; rows count from 0."""

    first_event: int
    phase: str
    category: str
    chunks: list[tuple[type[Table], dict[str, Column]]]
    lane_streams: dict[int, tuple[int, int]]
    process_names: dict[int | str, list[str]]
    process_labels: dict[int | str, str]
    thread_names: dict[tuple[int | str, int | str], str]
    launch_ends: set[tuple[int | str, int | str]]
    events: dict[str, int]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Packed:
    """One batch, and the texts and lanes that its packer met for the first time."""

    groups: list[PackedGroup]
    texts: list[str]
    lanes: list[LaneKey]


class Packer(Collector):
    """Makes columns of batches, not all of a file; texts and lanes keep their numbers from one to the next."""

    def __init__(self) -> None:
        super().__init__(ProblemLog())
        self._chunks: list[tuple[type[Table], dict[str, Column]]] = []
        self._told_texts = self._told_lanes = 0

    def pack(self, batch: Decoded) -> Packed | None:
        """None where other batches matter: begins and ends, arrows with texts for ids. It is of no use from then on."""
        groups = []
        for phase, category, indices in self._grouped(batch):
            self._begin_group()
            self._add_group(phase, category, indices, batch)
            groups.append(self._packed_group(int(indices[0]), phase, category))
        if self._open or self._arrow_ids:
            return None
        texts = list(self._texts)[self._told_texts :] if len(self._texts) > self._told_texts else []
        lanes = self._lane_keys[self._told_lanes :]
        self._told_texts, self._told_lanes = len(self._texts), len(self._lane_keys)
        return Packed(groups, texts, lanes)

    def _begin_group(self) -> None:
        self._log = ProblemLog()
        self._rows = 0
        self._chunks, self._lane_streams, self._process_names, self._thread_names = [], {}, {}, {}
        self._process_labels, self._launch_ends = {}, set()
        self._events.clear()

    def _packed_group(self, first_event: int, phase: str, category: str) -> PackedGroup:
        return PackedGroup(
            first_event,
            phase,
            category,
            self._chunks,
            self._lane_streams,
            self._process_names,
            self._process_labels,
            self._thread_names,
            self._launch_ends,
            dict(self._events),
            self._log.freeze(),
        )

    def _append(self, table: type[Table], **columns: Column) -> None:
        self._chunks.append((table, columns))


class Renumbering(Generic[Key]):
    """Numbers that a packer gave, as numbers of the file: given out in the order in which the file meets them."""

    def __init__(self, number_of: Callable[[Key], int]) -> None:
        self._number_of = number_of
        self._keys: list[Key] = []
        self._numbers = np.array([NONE], np.int32)  # the last stands for -1

    def extend(self, keys: Sequence[Key]) -> None:
        if keys:
            self._keys += keys
            self._numbers = np.concatenate([self._numbers[:-1], np.full(len(keys), _UNMET, np.int32), [NONE]])
            self._numbers = self._numbers.astype(np.int32)

    def __call__(self, column: Column) -> Column:
        numbers = self._numbers[column]
        unmet = numbers == _UNMET
        if unmet.any():
            for number in dict.fromkeys(column[unmet].tolist()):
                self._numbers[number] = self._number_of(self._keys[number])
            numbers = self._numbers[column]
        return numbers


class Merger(Collector):
    """The collector of a file: takes batches as events, or packed by one of several packers."""

    def renumberings(self) -> tuple[Renumbering[str], Renumbering[LaneKey]]:
        """For the texts and the lanes of one packer."""
        return Renumbering(self._texts.__getitem__), Renumbering(self._lane_number)

    def merge(self, packed: Packed, texts: Renumbering[str], lanes: Renumbering[LaneKey]) -> None:
        texts.extend(packed.texts)
        lanes.extend(packed.lanes)
        by_appearance = sorted(packed.groups, key=lambda group: group.first_event)
        numbered = [(self._groups[group.phase][group.category], group) for group in by_appearance]
        for _, group in sorted(numbered, key=lambda pair: pair[0]):
            self._merge_group(group, texts, lanes)

    def _merge_group(self, group: PackedGroup, texts: Renumbering[str], lanes: Renumbering[LaneKey]) -> None:
        first_row = self._rows
        for table, columns in group.chunks:
            for name, values in columns.items():
                if name in _TEXTS:
                    columns[name] = texts(values)
                elif name == "lane":
                    columns[name] = lanes(values)
                elif name == "row":
                    columns[name] = values + np.int32(first_row)
            if table is Spans:
                self._rows += len(columns["start_ns"])
            self._append(table, **columns)
        for lane, stream in group.lane_streams.items():
            self._lane_streams.setdefault(int(lanes(np.array([lane]))[0]), stream)
        for process, names in group.process_names.items():
            self._process_names.setdefault(process, []).extend(names)
        self._process_labels.update(group.process_labels)
        self._thread_names.update(group.thread_names)
        self._launch_ends |= group.launch_ends
        self._events.update(group.events)
        self._log.extend(group.problems)

    def _lane_number(self, key: LaneKey) -> int:
        process, thread, on_device = key
        return self._lanes[on_device][process][thread]
