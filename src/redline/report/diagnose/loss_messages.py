"""What stands behind a loss, in words: kernels, places on the host, collectives, queues, and late ranks."""

import re
from collections.abc import Callable, Mapping, Sequence

from redline.ledger.accounts import Account
from redline.ledger.job.collective_table import CollectiveRow
from redline.ledger.job.evidence import IdleSite, KernelShare
from redline.ledger.job.lateness import BEFORE, Lateness, LateRank
from redline.ledger.rank.digest import SHORT_KERNEL_NS
from redline.ledger.rank.exchanges import POINT_TO_POINT
from redline.ledger.rank.host_activity import HostActivity
from redline.ledger.rank.kernel_table import KernelRow
from redline.report import counted_nouns
from redline.report.language import _, clauses, listed, marked, ngettext, sentence_of, sentences
from redline.report.text_parts import clipped, percent
from redline.units import format_bytes, format_ns, format_rate

NAME_LIMIT = 60  # letters of a name from a trace, inside a sentence
_SAMPLED = re.compile(r"^(?P<function>\S+) \((?P<file>.+):(?P<line>\d+)\)$")
_BUILT_IN = re.compile(r"<built-in (?:method|function) (\w+)")
_FEW = 20  # kernels, of which a share would say nothing

# --- the host ---------------------------------------------------------------------------------------------------------


def where_the_host_was(places: Sequence[IdleSite]) -> str:
    """The three largest places of an idle account, and what was done in them."""
    parts = [f"{percent(place.share)} {_place(place)}" for place in places[:3] if place.share >= 0.01]
    return _("Largest: {parts}.").format(parts=clauses(parts)) if parts else ""


def _place(place: IdleSite) -> str:
    if place.by == "kind":
        return doing(place.rows[0])
    at, inside = _("at {site}"), _("in {region}")
    by_site = place.by == "site"
    where = at.format(site=site(place.name)) if by_site else inside.format(region=clipped(place.name, NAME_LIMIT))
    rows = [row for row in place.rows if not (by_site and row.kind == "unrecorded")]  # the site says more
    names = [name for name in dict.fromkeys(map(doing, rows)) if name != site(place.name)][:2]
    return _("{place} ({doing})").format(place=where, doing=listed(names)) if names else where


def doing(row: HostActivity) -> str:
    if row.kind == "unrecorded":
        return _("unrecorded code")
    return site(row.name) if row.kind == "python" else clipped(row.name, NAME_LIMIT)


def site(name: str) -> str:
    """A call as the profiler or a sample names it, without the folders far from the file and without addresses."""
    sampled = _SAMPLED.match(name)
    if sampled:
        file = "/".join(sampled["file"].split("/")[-2:])
        return clipped(f"{sampled['function']} ({file}:{sampled['line']})", NAME_LIMIT)
    built_in = _BUILT_IN.match(name)
    if built_in:
        return _("built-in {name}").format(name=clipped(built_in[1], NAME_LIMIT))
    folders, _dot, rest = name.partition(".py(")
    return clipped("/".join(folders.split("/")[-2:]) + (f".py({rest}" if rest else ""), NAME_LIMIT)


# --- kernels ----------------------------------------------------------------------------------------------------------


def kernels_behind(account: Account, shares: Sequence[KernelShare], name_of: Callable[[KernelRow], str]) -> str:
    """The largest rows of kernels behind an account of compute."""
    parts = [
        f"{percent(kernel_share.share)} {_kernel(account, kernel_share.row, name_of(kernel_share.row))}"
        for kernel_share in shares[:2]
    ]
    return _("Largest: {parts}.").format(parts=clauses(parts)) if parts else ""


def _kernel(account: Account, row: KernelRow, name: str) -> str:
    calls = counted_nouns.calls(row.calls)
    if account == Account.UNRATED or row.share is None:
        return _("{name} ({calls})").format(name=name, calls=calls)
    return _("{name} ({calls}, at {share} of its roof)").format(name=name, calls=calls, share=percent(row.share))


def short_kernels(kernels: int, short: int) -> str:
    """Kernels that are about as short as their launches; nothing where they are few."""
    if short < 0.5 * kernels or kernels < _FEW:
        return ""
    return _("{share} of {kernels} are shorter than {limit}.").format(
        share=percent(short / kernels), kernels=counted_nouns.kernels(kernels), limit=f"{SHORT_KERNEL_NS // 1000} us"
    )


# --- communication and queues -----------------------------------------------------------------------------------------


def largest_transfer(row: CollectiveRow, *, predicted: bool = False) -> str:
    """In a prediction, those that are not drawn are never late."""
    text = _("Mostly {what}; {hidden} of that time is hidden behind compute.")
    return text.format(what=_transfer(row, alone=predicted), hidden=percent(row.hidden_share))


def _transfer(row: CollectiveRow, *, alone: bool) -> str:
    what = clipped(row.collective, NAME_LIMIT)
    if row.payload_bytes:
        what = _("{what} of {size}").format(what=what, size=format_bytes(row.payload_bytes))
    if row.group_size:
        what = _("{what} over {ranks}").format(what=what, ranks=counted_nouns.ranks(row.group_size))
    if not row.bus_bytes_per_s:
        return what
    known = {"what": what, "speed": format_rate(row.bus_bytes_per_s, "B")}
    if row.matched or alone:
        return _("{what} at {speed} of bus bandwidth").format(**known)
    return _("{what} at {speed} of bus bandwidth, waiting included").format(**known)


def queue_text(queue_ns: int, first_ns: int, longest_ns: int, kernels: int, graph_launches: int) -> str:
    """`first_ns` of the queue lies before the first work on the device, so it is no launch latency of any kernel."""
    graphs = ngettext("{count:,} graph was launched.", "{count:,} graphs were launched.", graph_launches)
    said = _queue(queue_ns, first_ns, longest_ns, kernels)
    return sentences([said, graphs.format(count=graph_launches) if graph_launches else ""])


def _queue(queue_ns: int, first_ns: int, longest_ns: int, kernels: int) -> str:
    if first_ns > queue_ns / 2:
        return _("{share} is before the first work on the device.").format(share=percent(first_ns / queue_ns))
    if longest_ns > queue_ns / 5:
        text = _("The longest gap is {time} ({share}).")
        return text.format(time=format_ns(longest_ns), share=percent(longest_ns / queue_ns))
    text = _("That is {time} per kernel: launch latency, or work that waits for another stream.")
    return text.format(time=format_ns(round((queue_ns - first_ns) / max(kernels, 1))))


# --- late ranks -------------------------------------------------------------------------------------------------------

PATTERN: Mapping[str, str] = {
    "fixed": marked("the same rank in all steps"),
    "rotating": marked("different ranks in turn"),
    "first step only": marked("mostly in the first step"),
    "one step seen": marked("only one step in the traces"),
}
CAUSE: Mapping[str, str] = {
    BEFORE: marked("it was {more} behind when its window began"),
    "compute": marked("it computed {more} longer than the others"),
    "communication": marked("it communicated or copied {more} longer than the others"),
    "input": marked("it loaded data {more} longer than the others"),
    "host": marked("its device waited {more} longer for the host than the others"),
    "other": marked("its device was idle {more} longer than the others"),
}


def who_is_late(lateness: Lateness | None, wait: tuple[CollectiveRow, float] | None) -> str:
    """Who was last, where waiting has somebody to blame; between stages of a pipeline each waits for its neighbour."""
    if wait is not None and wait[0].collective == POINT_TO_POINT:
        text = _("{share} is between pairs of ranks that send and receive, like pipeline stages.")
        return text.format(share=percent(wait[1]))
    if lateness is None or not lateness.ranks:
        return ""
    first = lateness.ranks[0]
    text = _(
        "Rank {rank} was last at {last:,} of {collectives} and caused {share} of the waiting there ({pattern})"
    ).format(
        rank=first.rank,
        last=first.last,
        collectives=counted_nouns.collectives(lateness.operations),
        share=percent(first.share),
        pattern=_(PATTERN[lateness.pattern]),
    )
    return sentence_of(_with_cause(text, first))


def late_line(late: LateRank) -> str:
    """Of a rank that makes others wait, although the waiting is hidden, or has become exposed transfer later on."""
    text = _(
        "rank {rank} was last at {collectives}; the others waited {time} for it in total, {share} of all "
        "waiting for late ranks"
    ).format(
        rank=late.rank,
        collectives=counted_nouns.collectives(late.last),
        time=format_ns(late.caused_ns),
        share=percent(late.share),
    )
    return _with_cause(text, late)


def _with_cause(text: str, late: LateRank) -> str:
    return _("{late}: {cause}").format(late=text, cause=late_cause(late)) if late.cause_ns > 0 else text


def late_cause(late: LateRank) -> str:
    """Averages, as several exchanges of a step may be late for the same reason."""
    more = _(CAUSE[late.cause]).format(more=format_ns(late.cause_ns))
    return _("it was {time} late on average; {more}").format(time=format_ns(late.late_ns), more=more)
