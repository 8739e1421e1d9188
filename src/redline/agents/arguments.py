"""Arguments that several tools take, with their limits."""

from typing import Annotated

from msgspec import Meta

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
