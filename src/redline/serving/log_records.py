"""The records in the log of a serving engine, one for each line, with limits of what they may say."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

_Name = Annotated[str, Meta(max_length=1_000)]
_Count = Annotated[int, Meta(ge=0, le=10**15)]
_Time = Annotated[int, Meta(ge=-1, le=10**18)]  # ns of a clock, -1 for unknown: some sums of differences fit 64 bits
_Figure = Annotated[float, Meta(ge=-1e18, le=1e18)]
_Prefix = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class _Record(msgspec.Struct, array_like=True, gc=False):
    """A list that begins with the word for what it is; what a later version adds at its end is left."""


class LogHead(_Record, tag="log"):
    head: dict[_Name, Any]


class Facts(_Record, tag="facts"):
    facts: dict[_Name, Any]


class RequestQueued(_Record, tag="request"):
    queued_ns: _Time
    name: _Name
    prompt_tokens: _Count
    most_tokens: Any
    asks: list[_Name] = []
    prefixes: list[_Prefix] = []


class RequestCame(_Record, tag="came"):
    came_ns: _Time
    sent_ns: _Time
    name: _Name


class OutputsTaken(_Record, tag="outputs"):
    taken_ns: _Time


class TokensReady(_Record, tag="ready"):
    ready_ns: _Time
    name: _Name


class Aborted(_Record, tag="abort"):
    when_ns: Any = None


class WorkerPhase(_Record, tag="phase"):
    name: _Name
    start_ns: _Time
    end_ns: _Time


class Step(_Record, tag="step"):
    number: Any
    times_ns: tuple[_Time, _Time, _Time, _Time, _Time]
    batch: list[tuple[_Name, _Count, _Count]]
    new_tokens: list[tuple[_Name, _Count, bool]]
    preempted: list[_Name]
    state: tuple[_Count, _Count, _Figure]
    drafts: tuple[_Count, _Count] = (0, 0)


class Metrics(_Record, tag="metrics"):
    when_ns: Any
    figures: dict[_Name, _Figure]


LogRecord = (
    LogHead | Facts | RequestQueued | RequestCame | OutputsTaken | TokensReady | Aborted | WorkerPhase | Step | Metrics
)
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(LogRecord)


def log_record(line: bytes) -> LogRecord | None:
    """None for what is none, or of another version; a process that is killed leaves a line that breaks off."""
    try:
        record: LogRecord = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    return record
