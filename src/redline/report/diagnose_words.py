"""Every sentence that `diagnose` says: what an account means, what stands behind a loss, what could not be seen."""

import re
from collections.abc import Callable, Mapping, Sequence

from redline.analysis.accounts import Account
from redline.analysis.job.collective_table import CollectiveRow
from redline.analysis.job.evidence import KernelShare, Place
from redline.analysis.job.lateness import BEFORE, Late, Lateness
from redline.analysis.job.outline import Remark, StepTimes, Unseen, Utilisation
from redline.analysis.rank.digest import SHORT_KERNEL_NS
from redline.analysis.rank.doing import Doing
from redline.analysis.rank.exchanges import POINT_TO_POINT
from redline.analysis.rank.kernel_table import KernelRow
from redline.report.words import percent, plural, printable
from redline.units import format_bytes, format_ns, format_rate

_BUILT_IN = re.compile(r"<built-in (?:method|function) (\w+)")
NAME_LIMIT = 60  # letters of a name from a trace, inside a sentence
_FEW = 20  # kernels, of which a share would say nothing
_SEEN_TERM = 1e-3  # of a sum: less changes none of the digits shown
_ALL_KNOWN = 0.99  # of the kernel time: from here on a utilisation is not called a lower bound

# --- accounts ---------------------------------------------------------------------------------------------------------

MEANING: Mapping[Account, str] = {
    Account.MATH: "arithmetic at the peak of the machine",
    Account.MEMORY: "moving bytes at full memory bandwidth, beyond the arithmetic",
    Account.KERNEL_LOSS: "kernels ran longer than their arithmetic and their bytes need",
    Account.UNRATED: "kernels ran whose work or peak is not known, so how much of it is lost is not either",
    Account.TRANSFER: "the device only exchanged data with other ranks",
    Account.PEER_WAIT: "the device sat in a collective that another rank had not reached",
    Account.COPY: "the device only copied or set memory",
    Account.INPUT: "the device waited for the data loader",
    Account.SYNC: "the host had blocked on the device and resumed late",
    Account.HOST: "the device waited for the host to launch work",
    Account.QUEUE: "work was submitted, but the device had not begun it",
    Account.OTHER: "the device was idle, and nothing in the trace says why",
}
CPU_MEANING: Mapping[Account, str] = {
    Account.KERNEL_LOSS: "operators ran longer than their arithmetic and their bytes need",
    Account.UNRATED: "operators ran whose work or peak is not known, so how much of it is lost is not either",
    Account.TRANSFER: "nothing ran but the exchange of data with other ranks",
    Account.PEER_WAIT: "nothing ran but a collective that another rank had not reached",
    Account.COPY: "only operators that copy memory ran",
    Account.INPUT: "the main thread was in the data loader",
    Account.HOST: "no operator ran that computes: Python, dispatch, or code that was not recorded",
    Account.OTHER: "no operator ran, and nothing in the trace says why",
}


def meaning(account: Account, *, on_cpu: bool) -> str:
    return CPU_MEANING.get(account, MEANING[account]) if on_cpu else MEANING[account]


# --- the lines above the waterfall ------------------------------------------------------------------------------------


def headline(
    ranks: int,
    world_size: int,
    devices: Mapping[str, int],
    machines: Sequence[tuple[str, str]],
    *,
    synthetic: bool,
) -> str:
    """Ranks, their devices with how many have each, and whose figures were used, with the origin of these."""
    text = plural(ranks, "rank") + (f" of {world_size:,}" if world_size >= ranks else "")
    if synthetic:
        text += " (synthetic, not a measurement)"
    named = [f"{count:,} x {name}" if len(devices) > 1 else name for name, count in devices.items()]
    figures = [f"figures of {printable(name, 60)} ({origin})" for name, origin in machines]
    return f"{text} on {', '.join(named)}; {', '.join(figures) or 'no peaks known'}"


NO_DEVICE_NAME = "a device that the trace does not name"
ON_CPU = "CPU (no device work in the trace)"


def steps_line(steps: StepTimes, anchor: str, counts: tuple[int, int]) -> str:
    if not steps.longest_ns:
        return "none: nothing in the trace takes any time"
    number = f"{counts[0]:,}" if counts[0] == counts[1] else f"{counts[0]:,} to {counts[1]:,} per rank"
    found = f"{number} ({anchor})" if anchor.startswith("no mark") else f"{number}, from {anchor}"
    if steps.shortest_ns == steps.longest_ns:
        return f"{found}: {format_ns(steps.longest_ns)}"
    spread = f"{format_ns(steps.shortest_ns)} to {format_ns(steps.longest_ns)}"
    uneven = f"; the longest is {steps.longest_ns / steps.median_ns:.0f} x the median" if steps.uneven else ""
    return f"{found}: median {format_ns(round(steps.median_ns))} ({spread}{uneven})"


def window_line(steps: StepTimes, *, several: bool) -> str:
    outside_ns = round(steps.window_ns) - round(steps.in_steps_ns)
    text = f"{format_ns(round(steps.window_ns))} = {format_ns(round(steps.in_steps_ns))} in steps"
    text += f" + {format_ns(outside_ns)} outside"
    if round(steps.trace_ns) != round(steps.window_ns):
        text += f"; the trace spans {format_ns(round(steps.trace_ns))}"
    return f"{text} (average of the ranks)" if several else text


def device_line(steps: StepTimes) -> str:
    if not steps.device_window_ns:
        return "did nothing that was recorded"
    busy = steps.busy_ns / steps.device_window_ns
    return (
        f"busy {format_ns(round(steps.busy_ns))} (computing {format_ns(round(steps.computing_ns))}) of "
        f"{format_ns(round(steps.device_window_ns))} from first to last work; idle {percent(1 - busy)}"
    )


def mfu_line(use: Utilisation) -> str:
    """The ratio, and how to compute it again from what is printed."""
    needed_ns = {dtype: flops / use.peaks[dtype] * 1e9 for dtype, flops in use.model_flops.items()}
    terms = [
        f"{flop(use.model_flops[dtype])} / {format_rate(use.peaks[dtype], 'FLOP')} {dtype}"
        for dtype in sorted(needed_ns, key=lambda dtype: -needed_ns[dtype])
        if needed_ns[dtype] >= _SEEN_TERM * sum(needed_ns.values())
    ]
    done = terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"
    return f"{_bounded(use, use.mfu)} = {done} / {format_ns(round(use.step_ns))}"


def hfu_line(use: Utilisation) -> str:
    return f"{_bounded(use, use.hfu)}, with {flop(use.recomputed_flops)} per step that the backward pass did again"


def _bounded(use: Utilisation, ratio: float) -> str:
    is_bound = use.known_share < _ALL_KNOWN or use.unrated_flops
    digits = percent(ratio) if ratio >= 0.001 or not ratio else f"{100 * ratio:.2g} %"
    return f"{'at least ' if is_bound else ''}{digits}"


def no_mfu_line(unseen: Sequence[Remark], *, on_cpu: bool) -> str:
    """Why there is no utilisation, and what to do about it."""
    found = {remark.what: remark for remark in unseen}
    if Unseen.NO_PEAK in found:
        return f"not known: {NO_CPU_PEAK if on_cpu else _why_no_peak(found[Unseen.NO_PEAK])}"
    if Unseen.UNKNOWN_WORK in found and found[Unseen.UNKNOWN_WORK].detail:
        return f"not known: {NO_SHAPES}"
    if Unseen.NO_DTYPE_PEAK in found:
        return f"not known: no peak for {found[Unseen.NO_DTYPE_PEAK].detail}; give a profile with --machine FILE"
    return "not known: no matmul, convolution or attention whose shapes are known"


NO_CPU_PEAK = "the catalogue has no peaks of CPUs; give a profile with --machine FILE"
NO_SHAPES = "no shapes were recorded; profile with record_shapes=True"


def coverage_line(kernels: int, known_share: float, rated_share: float, *, on_cpu: bool) -> str:
    word = "operator" if on_cpu else "kernel"
    if not kernels:
        return f"no {word} that computes in the trace"
    return (
        f"work known of {percent(known_share)}, and rated against a roof {percent(rated_share)}, "
        f"of the time of {plural(kernels, word)}"
    )


def flop(flops: int) -> str:
    return format_rate(flops, "FLOP").removesuffix("/s")


def rest(empty: Sequence[Account], faint: Sequence[Account]) -> str:
    """Which accounts have no bar."""
    parts = [f"nothing in {', '.join(empty)}"] if empty else []
    return "; ".join([*parts, f"below 0.05 % in {', '.join(faint)}"] if faint else parts)


# --- what stands behind a loss ----------------------------------------------------------------------------------------


def where_the_host_was(places: Sequence[Place]) -> str:
    """The three largest places of an idle account, and what was done in them."""
    parts = [f"{percent(place.share)} {_place(place)}" for place in places[:3] if place.share >= 0.01]
    return f"Of it {'; '.join(parts)}." if parts else ""


def _place(place: Place) -> str:
    if place.by == "kind":
        return doing(place.rows[0])
    where = f"at {site(place.name)}" if place.by == "site" else f"in {printable(place.name, NAME_LIMIT)}"
    names = [name for name in dict.fromkeys(map(doing, place.rows)) if name != site(place.name)][:2]
    return f"{where} ({', '.join(names)})" if names else where


def doing(row: Doing) -> str:
    if row.kind == "unrecorded":
        return "unrecorded code"
    return site(row.name) if row.kind == "python" else printable(row.name, NAME_LIMIT)


def site(name: str) -> str:
    """A call as the profiler names it, without the folders far from the file and without addresses."""
    built_in = _BUILT_IN.match(name)
    if built_in:
        return f"built-in {printable(built_in[1], NAME_LIMIT)}"
    folders, _, rest = name.partition(".py(")
    return printable("/".join(folders.split("/")[-2:]) + (f".py({rest}" if rest else ""), NAME_LIMIT)


def kernels_behind(account: Account, shares: Sequence[KernelShare], name_of: Callable[[KernelRow], str]) -> str:
    """The largest rows of kernels behind an account of compute."""
    parts = [f"{percent(one.share)} {_kernel(account, one.row, name_of(one.row))}" for one in shares[:2]]
    return f"Of it {'; '.join(parts)}." if parts else ""


def _kernel(account: Account, row: KernelRow, name: str) -> str:
    calls = plural(row.calls, "call")
    if account == Account.UNRATED or row.share is None:
        return f"{name} ({calls})"
    return f"{name} ({calls}, at {percent(row.share)} of its roof)"


def short_kernels(kernels: int, short: int) -> str:
    """Kernels that are about as short as their launches; nothing where they are few."""
    if short < 0.5 * kernels or kernels < _FEW:
        return ""
    return f"{percent(short / kernels)} of {plural(kernels, 'kernel')} are shorter than {SHORT_KERNEL_NS // 1000} us."


def why_unrated(unseen: Sequence[Remark]) -> str:
    found = {remark.what: remark for remark in unseen}
    if Unseen.NO_PEAK in found:
        return "Without peaks nothing can be rated."
    if Unseen.UNKNOWN_WORK in found and found[Unseen.UNKNOWN_WORK].detail:
        return "No shapes were recorded: profile with record_shapes=True."
    if Unseen.NO_DTYPE_PEAK in found:
        return f"No peak is known for {found[Unseen.NO_DTYPE_PEAK].detail}."
    return ""


def largest_transfer(row: CollectiveRow) -> str:
    size = f" of {format_bytes(row.payload_bytes)}" if row.payload_bytes else ""
    group = f" over {plural(row.group_size, 'rank')}" if row.group_size else ""
    speed = row.bus_bytes_per_s
    at = f" at {format_rate(speed, 'B')} of bus bandwidth" if speed else ""
    if at and not row.matched:
        at += ", waiting included"
    text = f"Most of it in {printable(row.collective, NAME_LIMIT)}{size}{group}{at}"
    return f"{text}; {percent(row.hidden_share)} of its time is hidden under compute."


def queue_words(queue_ns: int, first_ns: int, longest_ns: int, kernels: int, graph_launches: int) -> str:
    """`first_ns` of the queue lies before the first work on the device, so it is no launch latency of any kernel."""
    graphs = f" {plural(graph_launches, 'graph was', 'graphs were')} launched." if graph_launches else ""
    if first_ns > queue_ns / 2:
        return f"{percent(first_ns / queue_ns)} of it lies before the first work on the device.{graphs}"
    if longest_ns > queue_ns / 5:
        return f"The longest gap of it is {format_ns(longest_ns)}, {percent(longest_ns / queue_ns)}.{graphs}"
    each = format_ns(round((queue_ns - first_ns) / max(kernels, 1)))
    return f"That is {each} per kernel: launch latency, or work that waits for another stream.{graphs}"


PATTERN: Mapping[str, str] = {
    "fixed": "the same rank through all steps",
    "rotating": "different ranks in turn",
    "first step only": "mostly in the first step",
    "one step seen": "only one step was seen",
}
CAUSE: Mapping[str, str] = {
    BEFORE: "it was {more} behind when its window began",
    "compute": "it computed {more} longer than the others",
    "communication": "it communicated or copied {more} longer than the others",
    "input": "it loaded data {more} longer than the others",
    "host": "its device waited {more} longer for its host than that of the others",
    "other": "its device was idle {more} longer than that of the others",
}


def who_is_late(lateness: Lateness | None, wait: tuple[CollectiveRow, float] | None) -> str:
    """Who was last, where waiting has somebody to blame; between stages of a pipeline each waits for its neighbour."""
    if wait is not None and wait[0].collective == POINT_TO_POINT:
        return f"Of it {percent(wait[1])} between pairs of ranks that send and receive, as the stages of a pipeline do."
    if lateness is None:
        return ""
    if not lateness.ranks:
        return ""
    first = lateness.ranks[0]
    text = (
        f"Rank {first.rank} was last at {first.last:,} of {plural(lateness.operations, 'collective')} "
        f"and caused {percent(first.share)} of the waiting in them ({PATTERN[lateness.pattern]})"
    )
    return f"{text}: {late_cause(first)}." if first.cause_ns > 0 else f"{text}."


def late_line(late: Late) -> str:
    """Of a rank that makes others wait, although the waiting is hidden, or has become exposed transfer later on."""
    text = (
        f"rank {late.rank} was last at {plural(late.last, 'collective')}, and the others together waited "
        f"{format_ns(late.caused_ns)} for it, {percent(late.share)} of all such waiting"
    )
    return f"{text}: {late_cause(late)}" if late.cause_ns > 0 else text


def late_cause(late: Late) -> str:
    """Averages, as several exchanges of a step may be late for the same reason."""
    more = CAUSE[late.cause].format(more=format_ns(late.cause_ns))
    return f"it came {format_ns(late.late_ns)} late on average; {more}"


# --- what could not be seen -------------------------------------------------------------------------------------------


def unseen(remark: Remark, ranks: int, *, said_above: bool = False) -> str:
    """One plain sentence, for a job of so many ranks; without reasons where the line of the MFU has said them."""
    if said_above and remark.what == Unseen.NO_PEAK:
        return "no peaks, so nothing is rated against a roof: see MFU"
    return _UNSEEN[remark.what](remark) + _on_ranks(remark, ranks)


def _on_ranks(remark: Remark, ranks: int) -> str:
    """Amounts are sums: over how many ranks."""
    if ranks == 1 or not remark.ranks:
        return ""
    if remark.ranks < ranks:
        return f" ({remark.ranks:,} of {ranks:,} ranks)"
    return " (all ranks together)" if remark.time_ns or remark.count else ""


def _why_no_peak(remark: Remark) -> str:
    return printable("; ".join(remark.detail.splitlines()), 400)


def _unknown_work(remark: Remark) -> str:
    why = " (no shapes recorded)" if remark.detail else ""
    return f"the work of {percent(remark.share)} of the kernel time is not known{why}: unrated, never guessed"


def _one_rank(remark: Remark) -> str:
    world = f" of {remark.count:,}" if remark.count > 1 else ""
    return f"one rank{world} only: waiting for peers is in transfer ({format_ns(remark.time_ns)} of the whole window)"


_UNSEEN: Mapping[Unseen, Callable[[Remark], str]] = {
    Unseen.SYNTHETIC: lambda one: f"the traces were made up by a program ({printable(one.detail, 40)}), not measured",
    Unseen.NO_PEAK: lambda one: f"no peaks, so nothing is rated against a roof: {_why_no_peak(one)}",
    Unseen.NO_DTYPE_PEAK: lambda one: f"the machine has no known peak for {one.detail}: such kernels are unrated",
    Unseen.UNKNOWN_WORK: _unknown_work,
    Unseen.ABOVE_ROOF: lambda one: (
        f"{plural(one.count, 'call')} faster than the roof: from cache, or a wrong shape or peak; counted as at it"
    ),
    Unseen.NO_HOST: lambda one: "no launches in the trace: why the device was idle cannot be said",
    Unseen.NO_DEVICE: lambda one: "no device work in the trace: the CPU is the device, and operators are its kernels",
    Unseen.NO_DEVICE_WORK: lambda one: (
        f"{plural(one.count, 'launch', 'launches')} but no device work: cut off, or recorded without the device"
    ),
    Unseen.ONE_RANK: _one_rank,
    Unseen.UNMATCHED: lambda one: (
        f"{percent(one.share)} of the exposed communication has no partner in the traces: waiting there is in transfer"
    ),
    Unseen.CLOCKS: lambda one: (
        f"the clocks of the ranks disagree by {format_ns(one.time_ns)}: sends and receives are compared by length only"
    ),
    Unseen.NO_LAUNCH: lambda one: (
        f"{plural(one.count, 'piece')} of device work without a launch ({format_ns(one.time_ns)}): operator not known"
    ),
    Unseen.LOST_WORK: lambda one: (
        f"{plural(one.count, 'launch', 'launches')} without any work on the device: the trace has lost some of it"
    ),
    Unseen.FIRST_QUEUE: lambda one: (
        f"{format_ns(one.time_ns)} of queue lies before the first work: perhaps work from before the recording"
    ),
    Unseen.OTHER: lambda one: (
        f"{format_ns(one.time_ns)} idle ({percent(one.share)}) is not explained by anything recorded"
    ),
    Unseen.NO_STACKS: lambda one: "no Python stacks: host time has no call site; profile with with_stack=True",
    Unseen.NO_STEPS: lambda one: "no steps are marked: everything is one step; say what one is with --step-regex",
    Unseen.OUTSIDE_STEPS: lambda one: (
        f"{format_ns(one.time_ns)} ({percent(one.share)} of the window) is outside the steps, so not in these accounts"
    ),
    Unseen.POLLING: lambda one: (
        f"{format_ns(one.time_ns)} before or after the job's own work (threads that only poll) is not in the window"
    ),
    Unseen.DROPPED: lambda one: f"{plural(one.count, 'event')} dropped while reading: `redline inspect` says why",
    Unseen.MISSING_RANKS: lambda one: (
        f"{plural(one.count, 'rank')} without a trace ({one.detail}): waiting for such is in transfer"
    ),
    Unseen.DOUBLE_RANKS: lambda one: f"more than one trace claims rank {one.detail}: of different jobs?",
    Unseen.LEFT_OUT: lambda one: (
        f"{plural(one.count, 'exchange')} did not fit into the digests: waiting in them is in transfer"
    ),
}


def unread(message: str) -> str:
    return "unread: " + printable(message.replace("\n", " "), 300)


def more_unread(files: int) -> str:
    return f"unread: {plural(files, 'more file')}"


# --- under the tables -------------------------------------------------------------------------------------------------

NO_ROWS: Mapping[str, str] = {
    "kernels": "no compute in the traces",
    "collectives": "no communication in the traces",
    "steps": "no steps in the traces",
    "host": "the device never waited for the host, or nothing is known of the host",
}
KERNELS_NOTE = "over all ranks and the whole window; share is of the time of all compute kernels"
ABOVE_ROOF_NOTE = "above roof: from cache, or a wrong shape or peak; no share is given"
COLLECTIVES_NOTE = (
    "over all ranks; bandwidths by the convention of nccl-tests, of the median exchange once all were there"
)
UNMATCHED_NOTE = "waiting -: the partners are not in the traces; waiting is in the time, and bandwidths are too low"
RANKS_NOTE = "average step of each rank; caused: how long all others waited for it. Compare only ranks of one kind"
STEPS_NOTE = "length: average of the ranks; accounts in percent of the step, over all ranks"
HOST_NOTE = "what the host did while the device waited for it: over all ranks and the whole window"


def left_out(count: int, word: str, how: str) -> str:
    return f"... and {plural(count, f'more {word}')}; {how}"


ROWS_LEFT = "-v lists all"
RANKS_LEFT = "shown are those that others waited for longest, then the slowest of their kind; -v lists all"
STEPS_LEFT = "shown are the longest; -v lists all"


def digest_limit(rows: int, what: str) -> str:
    return f"{plural(rows, 'row')} of {what} did not fit into the digests, and are added up as others"
