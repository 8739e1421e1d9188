"""What a tool is: a name, when to use it, the arguments that it takes, and the function that answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from redline.agents.allowed_folders import AllowedFolders
from redline.agents.bounded_answer import MOST_BYTES, BoundedAnswer
from redline.hardware.profile import is_profile_path
from redline.ranks.read_files import JobOptions

BOUND = f"At most {MOST_BYTES:,} bytes of JSON; `left_out` counts what is missing and holds the arguments that show it."
READING = JobOptions(jobs=1)
"""One process: nothing is started for an agent. The cache of digests makes the second question about a trace quick."""


@dataclass(frozen=True, kw_only=True)
class AgentTool:
    """One tool. `answer` takes arguments of the type `takes`."""

    name: str
    title: str
    description: str
    takes: type[msgspec.Struct]
    answer: Callable[[Any, AllowedFolders], BoundedAnswer]

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, with the object itself at the root."""
        schema = msgspec.json.schema(self.takes)
        definitions = schema.pop("$defs")
        root: dict[str, Any] = definitions.pop(self.takes.__name__)
        root.pop("title", None)
        return {**root, "additionalProperties": False}

    @property
    def told(self) -> str:
        """The description, with what holds for all tools."""
        return f"{self.description} {BOUND}"


def machine_name(name: str | None, folders: AllowedFolders) -> str | None:
    """A record of the catalogue as it is; a profile as its path, where that is allowed."""
    return str(folders.path(name)) if name is not None and is_profile_path(name) else name
