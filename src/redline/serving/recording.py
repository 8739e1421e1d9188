"""What was recorded of a serving engine: its steps, the requests in them, and when tokens were ready, as columns."""

from collections.abc import Mapping, Sequence

from redline.timeline.table import I64, Column
from redline.values import dataclass

UNKNOWN_NS = -1  # of a moment that was not recorded


@dataclass(frozen=True, kw_only=True)
class EngineSteps:
    """One row per step, by the moments at which its parts begin; all clocks are the monotonic one of the machine."""

    schedule_ns: I64
    execute_ns: I64  # the batch goes to the workers
    sample_ns: I64
    update_ns: I64  # tokens are handed to their requests
    end_ns: I64
    running: I64  # requests
    waiting: I64
    cache_share: Column  # of the cache of keys and values that is in use
    drafted: I64  # tokens that speculation put into the batch
    accepted: I64

    def __len__(self) -> int:
        return len(self.end_ns)


@dataclass(frozen=True, kw_only=True)
class BatchRows:
    """One row per request in a step."""

    step: I64
    request: I64
    tokens: I64  # that are computed in the step
    computed: I64  # tokens that were computed before, or found in the cache of prefixes
    new_tokens: I64  # that the request got


@dataclass(frozen=True, kw_only=True)
class RequestRows:
    """One row per request. What happened before recording began, or in a process that was not watched, is unknown."""

    names: Sequence[str]
    came_ns: I64  # at the server
    sent_ns: I64  # to the engine, as tokens
    queued_ns: I64  # in the engine
    prompt_tokens: I64
    is_finished: Column

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, kw_only=True)
class ReadyTokens:
    """One row per output of a request that the server has turned into text."""

    request: I64
    taken_ns: I64  # by the server, from what the engine sent
    ready_ns: I64


@dataclass(frozen=True, kw_only=True)
class WorkerPhases:
    """What the workers of the engine call the parts of a step."""

    name: I64
    start_ns: I64
    end_ns: I64
    names: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Preemptions:
    """Requests that lost their place in the cache, and the steps in which they did."""

    step: I64
    request: I64


@dataclass(frozen=True, kw_only=True)
class ServingRecording:
    """All of it."""

    settings: Mapping[str, object]  # of the engine, and of its model
    steps: EngineSteps
    batch: BatchRows
    requests: RequestRows
    ready: ReadyTokens
    phases: WorkerPhases
    preemptions: Preemptions
    prefixes: (
        I64  # of every prompt, a number for each of its first blocks: equal where two prompts begin alike up to it
    )
    asked: Mapping[str, int]  # requests by what they ask for besides tokens
    exported: Mapping[str, float]  # figures of the server's own metrics, when they were last looked at
    dropped_lines: int = 0  # that could not be read
    engines: int = 1  # that took steps in the run; this is the one that took most
