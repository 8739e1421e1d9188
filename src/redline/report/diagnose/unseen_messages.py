"""What could not be seen, in words: one plain sentence for each thing that limits a diagnosis."""

from collections.abc import Callable, Mapping, Sequence

from redline.ledger.job.first_screen import Remark, Unseen
from redline.report.figure_names import unused
from redline.report.language import _, clauses, marked, ngettext, translate_rendered
from redline.report.option_names import as_options
from redline.report.text_parts import clipped, percent
from redline.units import format_ns


def unseen(remark: Remark, ranks: int, *, said_above: bool = False) -> str:
    """One plain sentence, for a job of so many ranks; without reasons where the line of the MFU has said them."""
    if said_above and remark.what == Unseen.NO_PEAK:
        return _("no peaks, so no kernel can be rated: see MFU")
    return _on_ranks(_sentence(remark), remark, ranks)


def unread(message: str) -> str:
    return _("unread: {message}").format(message=clipped(message.replace("\n", " "), 300))


def more_unread(files: int) -> str:
    return ngettext("unread: {count:,} more file", "unread: {count:,} more files", files).format(count=files)


NO_MACHINE: Sequence[str] = (
    marked("`redline hardware` lists the records; choose one with --machine NAME, or your own with --machine FILE"),
    marked("the device has no name{reported}, so no figures are known for it"),
    marked("no figures are known for a device named {name}"),
    marked("{name} could be {records}"),
    marked("{name} is not {records}: part of one, or a variant?"),
    marked("the trace does not say which device it ran on; give it with --machine"),
    marked(
        "{name} is an {model}, whose variants differ and whose published figures contradict each other, so no figures "
        "are assumed for it"
    ),
    marked("if it runs like the record {record}, say so with --machine {name}; or give your own with --machine FILE"),
)
"""Why a device has no figures, line by line, as the catalogue says it."""


def why_no_peak(remark: Remark) -> str:
    return clipped(
        clauses(translate_rendered(line, NO_MACHINE) for line in as_options(remark.detail).splitlines()), 400
    )


def _on_ranks(text: str, remark: Remark, ranks: int) -> str:
    """Amounts are sums: over how many ranks."""
    if ranks == 1 or not remark.ranks:
        return text
    if remark.ranks < ranks:
        return _("{text} ({some:,} of {ranks:,} ranks)").format(text=text, some=remark.ranks, ranks=ranks)
    return _("{text} (all ranks together)").format(text=text) if remark.time_ns or remark.count else text


# --- one sentence each ------------------------------------------------------------------------------------------------

_SENTENCE: Mapping[Unseen, str] = {
    Unseen.SYNTHETIC: marked("the traces are synthetic (made by {name}), not measured"),
    Unseen.PREDICTED: marked("nothing was measured: the step is {name}, and only one rank per stage is drawn"),
    Unseen.ALTERED: marked(
        "not measured: the timelines are altered by {changes}, and nothing says that a change would do just that"
    ),
    Unseen.NO_PEAK: marked("no peaks, so no kernel can be rated: {why}"),
    Unseen.NO_DTYPE_PEAK: marked("no known peak for {detail} on this machine: those kernels are unrated"),
    Unseen.UNUSABLE_FIGURES: marked("in the profile, {what}"),
    Unseen.UNKNOWN_WORK: marked("FLOPs unknown for {share} of the kernel time: unrated, not guessed"),
    Unseen.NO_HOST: marked("no launches in the trace: the cause of idle time is unknown"),
    Unseen.NO_DEVICE: marked("no device work in the trace: the CPU is the device, and operators are its kernels"),
    Unseen.SEVERAL_JOBS: marked("the traces are of several jobs, so averages over their ranks mean nothing"),
    Unseen.ONE_RANK: marked(
        "one rank only: waiting for other ranks is counted as transfer ({time} of the whole window)"
    ),
    Unseen.UNMATCHED: marked(
        "{share} of the exposed communication has no partner in the traces: waiting in it is counted as transfer"
    ),
    Unseen.CLOCKS: marked("the clocks of the ranks disagree by {time}: sends and receives are compared by length only"),
    Unseen.FIRST_QUEUE: marked(
        "{time} of queue time is before the first device work: maybe work launched before recording began"
    ),
    Unseen.OTHER: marked("{time} idle ({share}) is not explained by anything recorded"),
    Unseen.NO_STACKS: marked("no Python stacks: host time has no call site; profile with with_stack=True"),
    Unseen.NO_STEPS: marked("no steps recognised: everything counts as one step; mark steps with --step-regex"),
    Unseen.OUTSIDE_STEPS: marked("{time} ({share} of the window) is outside the steps, so not in these accounts"),
    Unseen.POLLING: marked("{time} before or after the job's own work (threads that only poll) is not in the window"),
    Unseen.DOUBLE_RANKS: marked("more than one trace claims rank {detail}: are they of different jobs?"),
}
_COUNTED: Mapping[Unseen, Callable[[int], str]] = {
    Unseen.ABOVE_ROOF: lambda count: ngettext(
        "{count:,} call faster than the roof: from cache, or a wrong shape or peak; counted as at the roof",
        "{count:,} calls faster than the roof: from cache, or a wrong shape or peak; counted as at the roof",
        count,
    ),
    Unseen.NO_DEVICE_WORK: lambda count: ngettext(
        "{count:,} launch but no device work: cut off, or recorded without the device",
        "{count:,} launches but no device work: cut off, or recorded without the device",
        count,
    ),
    Unseen.UNKNOWN_DEVICE: lambda count: ngettext(
        "{count:,} span of a category that Redline does not know may be a device's work; `redline inspect` lists it",
        "{count:,} spans of categories that Redline does not know may be a device's work; `redline inspect` lists them",
        count,
    ),
    Unseen.NO_LAUNCH: lambda count: ngettext(
        "{count:,} piece of device work without a launch ({time}): operator unknown",
        "{count:,} pieces of device work without a launch ({time}): operator unknown",
        count,
    ),
    Unseen.LOST_WORK: lambda count: ngettext(
        "{count:,} launch without device work: the trace lost some",
        "{count:,} launches without device work: the trace lost some",
        count,
    ),
    Unseen.DROPPED: lambda count: ngettext(
        "{count:,} event dropped while reading: `redline inspect` says why",
        "{count:,} events dropped while reading: `redline inspect` says why",
        count,
    ),
    Unseen.MISSING_RANKS: lambda count: ngettext(
        "{count:,} rank without a trace ({detail}): waiting for it is counted as transfer",
        "{count:,} ranks without a trace ({detail}): waiting for them is counted as transfer",
        count,
    ),
    Unseen.LEFT_OUT: lambda count: ngettext(
        "{count:,} exchange did not fit into the digests: waiting in it is counted as transfer",
        "{count:,} exchanges did not fit into the digests: waiting in them is counted as transfer",
        count,
    ),
}


def _sentence(remark: Remark) -> str:
    kind, detail = remark.what, remark.detail
    text = _COUNTED[kind](remark.count) if kind in _COUNTED else _(_SENTENCE[kind])
    if kind == Unseen.UNKNOWN_WORK and detail:
        text = _("FLOPs unknown for {share} of the kernel time (no shapes recorded): unrated, not guessed")
    return text.format(
        count=remark.count,
        time=format_ns(remark.time_ns),
        share=percent(remark.share),
        detail=detail,
        name=clipped(detail, 40),
        changes=clipped(detail, 200),
        why=why_no_peak(remark),
        what=unused(detail),
    )
