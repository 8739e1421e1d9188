"""`redline lake` on the command line: what to do with the lake comes first, and each has its own options."""

from __future__ import annotations

from redline.cli.verb_kinds import VerbKind, VerbKinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

LAKE = VerbKinds(
    "lake",
    "Digests of all jobs in one folder of Parquet files, asked by name or with SQL.",
    {
        "add": VerbKind(
            "add the digests of one job",
            "Add the digests of one job to a lake; it is diagnosed as a whole, and added again it counts once.",
        ),
        "ask": VerbKind(
            "ask a question by its name, or with SQL",
            "Ask a lake a question by its name, or one SELECT over the tables digests, findings and operators.",
        ),
        "prune": VerbKind(
            "remove what is older than some days",
            "Remove windows that ended more than some days ago from a lake, and merge what is left.",
        ),
    },
    "redline lake ask teams --lake /shared/lake",
)
add_arguments, parse, run = LAKE.add_arguments, LAKE.parse, LAKE.run


def add_lake(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--lake", metavar="FOLDER", required=True, help="folder of the lake")
