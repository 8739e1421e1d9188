"""What is said of a window: a change of the job, of a rank or of a node."""

from dataclasses import dataclass
from enum import StrEnum


class AlarmKind(StrEnum):
    """What changed; the value is the code in JSON."""

    STEP_SLOWER = "step_slower"
    STEP_FASTER = "step_faster"
    INPUT_GREW = "input_grew"
    INPUT_RECOVERED = "input_recovered"
    COMMUNICATION_GREW = "communication_grew"
    COMMUNICATION_RECOVERED = "communication_recovered"
    RANK_LATE = "rank_late"
    RANK_RECOVERED = "rank_recovered"
    NODE_LATE = "node_late"
    NODE_RECOVERED = "node_recovered"
    RANK_SILENT = "rank_silent"
    RANK_RETURNED = "rank_returned"
    WORLD_CHANGED = "world_changed"


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """One change, said in the window in which it became certain."""

    kind: AlarmKind
    since: str = ""  # the first window after the change, as far as it is told; "" for a drift
    is_drift: bool = False
    change_share: float = 0.0  # signed: of the step, or of the time that a rank works by itself
    ranks: tuple[int, ...] = ()
    host: str = ""
    before: int = 0  # ranks of the job, where their number changed
    after: int = 0
