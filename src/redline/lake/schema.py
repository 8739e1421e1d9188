"""The schema of the lake: one row for each digest, every column with its type and meaning."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from redline.lake.extra import pyarrow
from redline.ledger.accounts import ACCOUNTS

KIND = "lake-part"
SCHEMA_VERSION = 2  # 2: labels, what each finding gains, hours that a window stands for, operators
MOST_OPERATORS = 12  # of each rank, the longest first

FINDING_FIELDS = {
    "code": ("string", "as in `redline explain`"),
    "alone_share": ("float", "of the step: what the job can gain at most with this fix alone"),
    "bound_share": ("float", "of the step: the part of it that no other finding has claimed; these add up"),
}
OPERATOR_FIELDS = {
    "operator": ("string", "or the kernel, where no operator is known"),
    "dtype": ("string", "of its arithmetic"),
    "calls": ("int64", "in the window"),
    "time_ns": ("int64", "of its kernels, in the window"),
    "roof_ns": ("int64", "of that, what the machine needs at best; null where it is not known"),
}


@dataclass(frozen=True, kw_only=True)
class LakeColumn:
    """One column of the lake."""

    name: str
    type: str  # as Arrow names it; `findings` and `operators` are lists of structs
    meaning: str


def account_column(account: str) -> str:
    """kernel loss -> kernel_loss_ns."""
    return f"{account.replace(' ', '_')}_ns"


ACCOUNT_COLUMNS = tuple(map(account_column, ACCOUNTS))


def _columns() -> Iterator[LakeColumn]:
    def column(name: str, kind: str, meaning: str) -> LakeColumn:
        return LakeColumn(name=name, type=kind, meaning=meaning)

    yield column("digest_id", "int64", "of job, rank and start of the window: a digest that is added twice counts once")
    yield column("added_ns", "int64", "when it was added, as Unix time; of two rows of one digest the later one counts")
    yield column("job", "string", "`--job`, or the run, or the folder of the digests")
    yield column("team", "string", "`--team`; empty where it was not given, as are the next two")
    yield column("model", "string", "`--model`")
    yield column("cluster", "string", "`--cluster`")
    yield column("rank", "int32", "of the job; negative where it is not known")
    yield column("node", "string", "the host that the rank ran on")
    yield column("world_size", "int32", "ranks of the job")
    yield column("ranks", "int32", "ranks of this window that were added together")
    yield column("device", "string", "of the rank: its name as the driver says it, or `CPU`")
    yield column("machine", "string", "the record or profile whose peaks were used; empty for none")
    yield column("start_ns", "int64", "of the window, as Unix time on the clock of the rank")
    yield column("end_ns", "int64", "of the window")
    yield column("steps", "int32", "in the window")
    yield column("step_ns", "int64", "the average step")
    yield column("in_steps_ns", "int64", "all steps together; the accounts add up to it")
    yield column("outside_ns", "int64", "of the window, outside of steps")
    for name, account in zip(ACCOUNT_COLUMNS, ACCOUNTS, strict=True):
        yield column(name, "int64", f"inside steps, in the account {account}")
    yield column("gpu_hours", "double", "hours of this rank's device that the window stands for")
    yield column("hours_from", "string", "how that is known: `stated`, `run` or `window`")
    yield column("caused_ns", "int64", "what all other ranks together waited for this one, in the window")
    yield column("last_at", "int32", "shared collectives at which this rank was the last")
    yield column("late_ns", "int64", "how late it was then, on average, against the median rank")
    yield column("late_cause", "string", "what it did more than the others then; empty where it never was the last")
    yield column("findings", "list", "of the job")
    yield column("operators", "list", f"of this rank, the {MOST_OPERATORS} that take longest")
    yield column("synthetic", "bool", "whether any of it was simulated rather than measured")


COLUMNS = tuple(_columns())
NAMES = tuple(column.name for column in COLUMNS)
STRUCTS = {"findings": FINDING_FIELDS, "operators": OPERATOR_FIELDS}


def arrow_schema() -> Any:
    """The columns as Arrow knows them."""
    arrow = pyarrow()
    return arrow.schema([(column.name, _arrow_type(column)) for column in COLUMNS])


def _arrow_type(column: LakeColumn) -> Any:
    arrow = pyarrow()
    if column.type != "list":
        return arrow.type_for_alias(column.type)
    fields = [(name, arrow.type_for_alias(kind)) for name, (kind, _) in STRUCTS[column.name].items()]
    return arrow.list_(arrow.struct(fields))
