"""Where in the user's own files a job makes and calls what levers change, as it was seen while the job ran."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

TYPE_CHECKING = False  # this runs in the user's process: it imports next to nothing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCRIPT, OPTIMIZER, LOADER, DDP, MODEL = "script", "optimizer", "loader", "ddp", "model"
ROOT_CALL, ZERO_GRAD, CLIPPING, COLLECTION = "root call", "zero_grad", "clip_grad_norm_", "gc.collect"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A call in a file; for the main script its first line."""

    kind: str
    file: str = ""
    digest: str = ""  # of the bytes of the file when it was seen
    line: int = 1
    column: int = 0  # in bytes of UTF-8, from 0 on, as `ast` counts
    end_line: int = 1
    end_column: int = 0  # of the first byte behind it; no two calls have the same end
    function: str = ""  # in which the call is
    callee: str = ""  # the class of what is made or called
    why_not: str = ""  # why the text there cannot be changed; "" where it can
    details: Mapping[str, Any] = field(default_factory=dict)  # what was known at run time, by kind of place

    def told(self) -> dict[str, object]:
        return asdict(self)


def places_in(facts: Mapping[str, Any]) -> tuple[Place, ...]:
    """Read the places among the facts that a rank told of itself."""
    return tuple(Place(**told) for told in facts.get("places", ()))
