"""The reading ledger: what was repaired, dropped or noticed while a trace was read, by reason."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, StrEnum

from redline.artifacts.masking import masked
from redline.timeline.table import encodable
from redline.values import dataclass


class Effect(StrEnum):
    """What a reason did to the data, from harmless to worst."""

    NOTED = "noted"
    REPAIRED = "repaired"
    DROPPED = "dropped"


class Reason(Enum):
    """Why something in a trace was not taken as written; the value is (effect, sentence for people)."""

    # the file as a whole
    TRUNCATED_FILE = (Effect.DROPPED, "the file is cut or broken: some of the trace may be lost")
    UNFINISHED_EXPORT = (Effect.NOTED, "read from a .tmp file: the export never finished")
    TRAILING_CONTENT = (Effect.DROPPED, "content after the end of the trace was ignored")
    BYTE_ORDER_MARK = (Effect.REPAIRED, "a byte order mark was skipped")
    UTF16_TEXT = (Effect.REPAIRED, "UTF-16 text was converted to UTF-8")
    BAD_METADATA = (Effect.DROPPED, "metadata of the trace could not be read")
    BAD_HOST_EVIDENCE = (Effect.DROPPED, "parts of what `redline run` recorded about the host could not be read")
    TRUNCATED_GROUP_CONFIG = (Effect.NOTED, "the process-group description was cut off by the profiler")
    NO_EVENTS = (Effect.NOTED, "the trace holds metadata but no timed events")
    # text and syntax of single events
    LONE_BACKSLASH = (Effect.REPAIRED, "backslashes that begin no escape were doubled")
    CONTROL_CHARACTER = (Effect.REPAIRED, "control characters inside strings were replaced")
    INVALID_UTF8 = (Effect.REPAIRED, "bytes that are not UTF-8 were replaced")
    MISSING_QUOTE = (Effect.REPAIRED, "keys without their opening quote were completed")
    UNESCAPED_QUOTE = (Effect.REPAIRED, "quotes inside strings were escaped")
    NOT_A_NUMBER = (Effect.REPAIRED, "inf, NaN or N/A in place of a number was taken as missing")
    NUMBER_AS_STRING = (Effect.REPAIRED, "times or ids written as strings were read as numbers")
    BAD_FIELD = (Effect.REPAIRED, "a field with an unusable value was taken as missing")
    DUPLICATE_KEY = (Effect.REPAIRED, "an event names a field twice; what the profiler itself wrote was kept")
    UNREADABLE_EVENT = (Effect.DROPPED, "events that no repair makes readable")
    CUT_EVENT = (Effect.DROPPED, "the event that the end of the file cuts off")
    EMPTY_EVENT = (Effect.DROPPED, "events without any field")
    NOT_AN_EVENT = (Effect.DROPPED, "entries of the event list that are not objects")
    MISSING_FIELD = (Effect.DROPPED, "events without a name, phase or time")
    DUPLICATED_EVENT = (Effect.DROPPED, "events that repeat an earlier one exactly")
    UNKNOWN_PHASE = (Effect.NOTED, "events of a phase that Redline does not use")
    UNUSED_CATEGORY = (Effect.NOTED, "events of categories that Redline does not know were not used")
    UNKNOWN_DEVICE = (Effect.DROPPED, "work that may be of a device which Redline does not know was not used")
    DEVICE_BY_STRUCTURE = (Effect.NOTED, "work of an unknown device was recognised by its launches or its process")
    # times
    NEGATIVE_DURATION = (Effect.DROPPED, "events that end before they begin")
    IMPOSSIBLE_DURATION = (Effect.DROPPED, "events longer than the whole trace can be")
    FOREIGN_CLOCK = (Effect.DROPPED, "events stamped by another clock, far outside the trace")
    UNFINISHED_EVENT = (Effect.REPAIRED, "events without an end were closed at the end of the trace")
    STREAM_OVERLAP = (Effect.NOTED, "kernels of one stream overlap in time")
    OVERLONG_KERNEL = (Effect.REPAIRED, "kernels that run over the next ones of their stream were cut there")
    CHILD_OUTLIVES_PARENT = (Effect.NOTED, "spans that begin inside another of their thread but end after it")
    KERNEL_BEFORE_LAUNCH = (Effect.NOTED, "kernels that begin before the call that launched them")
    WAIT_WITHOUT_RECORD = (Effect.NOTED, "waits for an event that do not name the call which recorded it")
    WAIT_FOR_UNSEEN_RECORD = (Effect.NOTED, "stream waits whose event is recorded nowhere in the trace, or later")
    SYNC_DURING_KERNEL = (Effect.NOTED, "waits for a stream that begin while a kernel of it runs")
    # links, names, ranks
    NO_CORRELATION = (Effect.NOTED, "kernels without a correlation id: they cannot be linked to a launch")
    REUSED_CORRELATION = (Effect.NOTED, "one correlation id names several launches; the nearest was taken")
    UNDESCRIBED_COLLECTIVE = (Effect.NOTED, "collectives of which type, sizes or group were not recorded")
    SHARED_SEQUENCE = (Effect.NOTED, "sequence numbers that several backward operators share")
    LOST_NAMES = (Effect.NOTED, "names with non-ASCII letters were lost by the profiler (written as 'unknown')")
    NO_DEVICE_EVENTS = (Effect.NOTED, "GPU work was launched but no kernel was recorded")
    SUSPICIOUS_KERNEL = (Effect.NOTED, "kernels on a CPU thread: a name may have injected fields")
    TOO_MANY_PROCESSES = (Effect.DROPPED, "events of processes that are too many to be ranks; the busiest were kept")
    UNKNOWN_ALLOCATOR_ACTION = (Effect.NOTED, "actions of the memory allocator that Redline does not know")
    RANK_INFERRED = (Effect.NOTED, "the rank is not in the trace and was inferred")

    @property
    def effect(self) -> Effect:
        return self.value[0]

    @property
    def sentence(self) -> str:
        return self.value[1]

    @property
    def code(self) -> str:
        """The stable name that JSON and tests use."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Problem:
    """One line of the reading ledger."""

    reason: Reason
    count: int
    first_offset: int  # byte in the inflated file, -1 where that has no meaning
    example: str


class ProblemLog:
    """Collects problems while a file is read; one line per reason."""

    def __init__(self) -> None:
        self._first: dict[Reason, Problem] = {}
        self._counts: Counter[Reason] = Counter()

    def add(self, reason: Reason, count: int = 1, *, offset: int = -1, example: str = "") -> None:
        if count <= 0:
            return
        self._counts[reason] += count
        if reason not in self._first:
            self._first[reason] = Problem(reason, count, offset, encodable(masked(example[:1000])[:200]))

    def __contains__(self, reason: Reason) -> bool:
        return reason in self._first

    def extend(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.add(problem.reason, problem.count, offset=problem.first_offset, example=problem.example)

    def restore(self, problems: Iterable[Problem]) -> None:
        """Back to an earlier state, as frozen then."""
        self._first, self._counts = {}, Counter()
        self.extend(problems)

    def freeze(self) -> tuple[Problem, ...]:
        """The lines so far, in the order of the Reason list."""
        return tuple(
            replace(self._first[reason], count=self._counts[reason]) for reason in Reason if reason in self._first
        )
