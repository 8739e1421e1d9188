"""The tables in words: their heads, what stands under them, and what is said where they are empty."""

from collections.abc import Mapping

from redline.report.language import _, marked, ngettext

NO_ROWS: Mapping[str, str] = {
    "kernels": marked("no compute in the traces"),
    "collectives": marked("no communication in the traces"),
    "steps": marked("no steps in the traces"),
    "host": marked("the device never waited for the host, or nothing is known of the host"),
}
KERNELS_NOTE = marked("over all ranks and the whole window; share is of the time of all compute kernels")
ABOVE_ROOF_NOTE = marked("above roof: from cache, or a wrong shape or peak; no share is given")
COLLECTIVES_NOTE = marked(
    "over all ranks; bandwidths by the convention of nccl-tests, of the median exchange once all were there"
)
UNMATCHED_NOTE = marked(
    "waiting -: the partners are not in the traces; waiting is in the time, and bandwidths are too low"
)
RANKS_NOTE = marked(
    "average step of each rank; caused: how long all others waited for it. Compare only ranks of one kind"
)
STEPS_NOTE = marked("length: average of the ranks; accounts in percent of the step, over all ranks")
HOST_NOTE = marked("what the host did while the device waited for it: over all ranks and the whole window")
REGIME: Mapping[str, str] = {
    "compute": marked("compute"),
    "memory": marked("memory"),
    "neither": marked("neither"),
    "above roof": marked("above roof"),
    "unknown": "-",
}


def regime(name: str) -> str:
    return _(REGIME[name])


# --- what was left out ------------------------------------------------------------------------------------------------


def rows_left(count: int) -> str:
    return ngettext(
        "... and {count:,} more row; -v lists all", "... and {count:,} more rows; -v lists all", count
    ).format(count=count)


def ranks_left(count: int) -> str:
    return ngettext(
        "... and {count:,} more rank; shown are those that others waited for longest, then the slowest of their kind; "
        "-v lists all",
        "... and {count:,} more ranks; shown are those that others waited for longest, then the slowest of their kind; "
        "-v lists all",
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
        "{count:,} row of kernels did not fit into the digests, and is added up as others",
        "{count:,} rows of kernels did not fit into the digests, and are added up as others",
        rows,
    ).format(count=rows)


def doing_cut(rows: int) -> str:
    return ngettext(
        "{count:,} row of what the host did did not fit into the digests, and is added up as others",
        "{count:,} rows of what the host did did not fit into the digests, and are added up as others",
        rows,
    ).format(count=rows)
