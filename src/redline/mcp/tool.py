"""What a tool is: a name, when to use it, the arguments that it takes, and the function that answers."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from redline.hardware.profile import is_profile_path
from redline.job.read_files import JobOptions
from redline.mcp.allowed_folders import AllowedFolders
from redline.mcp.bounded_answer import MOST_BYTES, BoundedAnswer

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


Name = Annotated[str, Meta(min_length=1, max_length=1_024)]
Paths = Annotated[
    list[Name],
    Meta(
        min_length=1,
        max_length=64,
        description="traces, digests, run folders or folders of one recording, inside the allowed folders; no patterns",
    ),
]
Recording = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1_024,
        description="one recording inside the allowed folders: a trace, a digest, a run folder or a folder of them",
    ),
]
MachineName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1_024,
        description="whose peaks to use: a record of the tool hardware, or a profile of `redline calibrate` inside the "
        "allowed folders; by default what the trace names",
    ),
]
Offset = Annotated[int, Meta(ge=0, le=10_000_000, description="the first row to show, as `left_out` asks for it")]


def command_line(*words: str, paths: Sequence[Path] = (), options: Mapping[str, object] | None = None) -> str:
    """`redline` with these words and paths; options without a value are left out, True stands for a flag."""
    given = [(name, value) for name, value in (options or {}).items() if value not in {None, False}]
    spelt = [word for name, value in given for word in ([name] if value is True else [name, str(value)])]
    return shlex.join(["redline", *words, *map(str, paths), *spelt])
