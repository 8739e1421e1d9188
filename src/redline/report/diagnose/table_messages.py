"""The tables in words: their heads, what stands under them, and what is said where they are empty."""

from collections.abc import Mapping

from redline.ledger.rank.host_phases import Phase
from redline.report.language import _, marked, ngettext

NO_ROWS: Mapping[str, str] = {
    "kernels": marked("no compute in the traces"),
    "collectives": marked("no communication in the traces"),
    "steps": marked("no steps in the traces"),
    "phases": marked("the traces do not tell phases of a step apart"),
    "host": marked("the device never waited for the host, or the host was not recorded"),
}
KERNELS_NOTE = marked("all ranks, whole window; share: of the time of all compute kernels")
ABOVE_ROOF_NOTE = marked("above roof: from cache, or a wrong shape or peak; no share is given")
COLLECTIVES_NOTE = marked("all ranks; bandwidths as in nccl-tests, of the median exchange after all ranks arrived")
UNMATCHED_NOTE = marked(
    "waiting -: the other ranks are not in the traces, so times include waiting and bandwidths are too low"
)
RANKS_NOTE = marked(
    "average step of each rank; caused: total time that others waited for it. Compare only ranks of the same kind"
)
STEPS_NOTE = marked("length: average of the ranks; accounts in percent of the step, over all ranks")
PHASES_NOTE = marked("average step of a rank; work of the device counts in the phase that launched it")
PHASE_KINDS_NOTE = marked("host: the device is idle; waiting: for other ranks, loader workers, or queued work")
PHASE: Mapping[Phase, str] = {
    Phase.INPUT: marked("input"),
    Phase.FORWARD: marked("forward"),
    Phase.BACKWARD: marked("backward"),
    Phase.OPTIMIZER: marked("optimizer"),
    Phase.BETWEEN: marked("between steps"),
}
HOST_NOTE = marked("what the host did while the device waited for it: over all ranks and the whole window")
REGIME: Mapping[str, str] = {
    "compute": marked("compute"),
    "memory": marked("memory"),
    "neither": marked("neither"),
    "above roof": marked("above roof"),
    "unknown": "-",
}


def phase(of: Phase) -> str:
    return _(PHASE[of])


def regime(name: str) -> str:
    return _(REGIME[name])


# --- what was left out ------------------------------------------------------------------------------------------------


def rows_left(count: int) -> str:
    return ngettext(
        "... and {count:,} more row; -v lists all", "... and {count:,} more rows; -v lists all", count
    ).format(count=count)


def ranks_left(count: int) -> str:
    return ngettext(
        "... and {count:,} more rank; shown are those that others waited for longest, then the slowest "
        "of their kind; -v lists all",
        "... and {count:,} more ranks; shown are those that others waited for longest, then the slowest "
        "of their kind; -v lists all",
        count,
    ).format(count=count)


def steps_left(count: int) -> str:
    return ngettext(
        "... and {count:,} more step; shown are the longest; -v lists all",
        "... and {count:,} more steps; shown are the longest; -v lists all",
        count,
    ).format(count=count)


def kernels_cut(rows: int) -> str:
    return ngettext(
        "{count:,} row of kernels did not fit into the digests and is summed up under others",
        "{count:,} rows of kernels did not fit into the digests and are summed up under others",
        rows,
    ).format(count=rows)


def doing_cut(rows: int) -> str:
    return ngettext(
        "{count:,} row of host activity did not fit into the digests and is summed up under others",
        "{count:,} rows of host activity did not fit into the digests and are summed up under others",
        rows,
    ).format(count=rows)
