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
    return _on_ranks(_SENTENCE[remark.what](remark), remark, ranks)


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


def _synthetic(remark: Remark) -> str:
    text = _("the traces are synthetic (made by {name}), not measured")
    return text.format(name=clipped(remark.detail, 40))


def _predicted(remark: Remark) -> str:
    text = _("nothing was measured: the step is {name}, and only one rank per stage is drawn")
    return text.format(name=clipped(remark.detail, 40))


def _altered(remark: Remark) -> str:
    text = _("not measured: the timelines are altered by {changes}, and nothing says that a change would do just that")
    return text.format(changes=clipped(remark.detail, 200))


def _no_peak(remark: Remark) -> str:
    return _("no peaks, so no kernel can be rated: {why}").format(why=why_no_peak(remark))


def _no_dtype_peak(remark: Remark) -> str:
    return _("no known peak for {types} on this machine: those kernels are unrated").format(types=remark.detail)


def _unusable_figures(remark: Remark) -> str:
    return _("in the profile, {what}").format(what=unused(remark.detail))


def _unknown_work(remark: Remark) -> str:
    text = _("FLOPs unknown for {share} of the kernel time: unrated, not guessed")
    if remark.detail:
        text = _("FLOPs unknown for {share} of the kernel time (no shapes recorded): unrated, not guessed")
    return text.format(share=percent(remark.share))


def _above_roof(remark: Remark) -> str:
    return ngettext(
        "{count:,} call faster than the roof: from cache, or a wrong shape or peak; counted as at the roof",
        "{count:,} calls faster than the roof: from cache, or a wrong shape or peak; counted as at the roof",
        remark.count,
    ).format(count=remark.count)


def _no_device_work(remark: Remark) -> str:
    return ngettext(
        "{count:,} launch but no device work: cut off, or recorded without the device",
        "{count:,} launches but no device work: cut off, or recorded without the device",
        remark.count,
    ).format(count=remark.count)


def _unknown_device(remark: Remark) -> str:
    return ngettext(
        "{count:,} span of a category that Redline does not know may be a device's work; `redline inspect` lists it",
        "{count:,} spans of categories that Redline does not know may be a device's work; `redline inspect` lists them",
        remark.count,
    ).format(count=remark.count)


def _one_rank(remark: Remark) -> str:
    text = _("one rank only: waiting for other ranks is counted as transfer ({time} of the whole window)")
    return text.format(time=format_ns(remark.time_ns))


def _unmatched(remark: Remark) -> str:
    return _(
        "{share} of the exposed communication has no partner in the traces: waiting in it is counted as transfer"
    ).format(share=percent(remark.share))


def _clocks(remark: Remark) -> str:
    return _("the clocks of the ranks disagree by {time}: sends and receives are compared by length only").format(
        time=format_ns(remark.time_ns)
    )


def _no_launch(remark: Remark) -> str:
    return ngettext(
        "{count:,} piece of device work without a launch ({time}): operator unknown",
        "{count:,} pieces of device work without a launch ({time}): operator unknown",
        remark.count,
    ).format(count=remark.count, time=format_ns(remark.time_ns))


def _lost_work(remark: Remark) -> str:
    return ngettext(
        "{count:,} launch without device work: the trace lost some",
        "{count:,} launches without device work: the trace lost some",
        remark.count,
    ).format(count=remark.count)


def _first_queue(remark: Remark) -> str:
    text = _("{time} of queue time is before the first device work: maybe work launched before recording began")
    return text.format(time=format_ns(remark.time_ns))


def _other(remark: Remark) -> str:
    text = _("{time} idle ({share}) is not explained by anything recorded")
    return text.format(time=format_ns(remark.time_ns), share=percent(remark.share))


def _outside_steps(remark: Remark) -> str:
    text = _("{time} ({share} of the window) is outside the steps, so not in these accounts")
    return text.format(time=format_ns(remark.time_ns), share=percent(remark.share))


def _polling(remark: Remark) -> str:
    text = _("{time} before or after the job's own work (threads that only poll) is not in the window")
    return text.format(time=format_ns(remark.time_ns))


def _dropped(remark: Remark) -> str:
    return ngettext(
        "{count:,} event dropped while reading: `redline inspect` says why",
        "{count:,} events dropped while reading: `redline inspect` says why",
        remark.count,
    ).format(count=remark.count)


def _missing_ranks(remark: Remark) -> str:
    return ngettext(
        "{count:,} rank without a trace ({ranks}): waiting for it is counted as transfer",
        "{count:,} ranks without a trace ({ranks}): waiting for them is counted as transfer",
        remark.count,
    ).format(count=remark.count, ranks=remark.detail)


def _left_out(remark: Remark) -> str:
    return ngettext(
        "{count:,} exchange did not fit into the digests: waiting in it is counted as transfer",
        "{count:,} exchanges did not fit into the digests: waiting in them is counted as transfer",
        remark.count,
    ).format(count=remark.count)


_SENTENCE: Mapping[Unseen, Callable[[Remark], str]] = {
    Unseen.SYNTHETIC: _synthetic,
    Unseen.PREDICTED: _predicted,
    Unseen.ALTERED: _altered,
    Unseen.NO_PEAK: _no_peak,
    Unseen.NO_DTYPE_PEAK: _no_dtype_peak,
    Unseen.UNUSABLE_FIGURES: _unusable_figures,
    Unseen.UNKNOWN_WORK: _unknown_work,
    Unseen.ABOVE_ROOF: _above_roof,
    Unseen.NO_HOST: lambda remark: _("no launches in the trace: the cause of idle time is unknown"),
    Unseen.NO_DEVICE: lambda remark: _(
        "no device work in the trace: the CPU is the device, and operators are its kernels"
    ),
    Unseen.NO_DEVICE_WORK: _no_device_work,
    Unseen.UNKNOWN_DEVICE: _unknown_device,
    Unseen.SEVERAL_JOBS: lambda remark: _("the traces are of several jobs, so averages over their ranks mean nothing"),
    Unseen.ONE_RANK: _one_rank,
    Unseen.UNMATCHED: _unmatched,
    Unseen.CLOCKS: _clocks,
    Unseen.NO_LAUNCH: _no_launch,
    Unseen.LOST_WORK: _lost_work,
    Unseen.FIRST_QUEUE: _first_queue,
    Unseen.OTHER: _other,
    Unseen.NO_STACKS: lambda remark: _("no Python stacks: host time has no call site; profile with with_stack=True"),
    Unseen.NO_STEPS: lambda remark: _(
        "no steps recognised: everything counts as one step; mark steps with --step-regex"
    ),
    Unseen.OUTSIDE_STEPS: _outside_steps,
    Unseen.POLLING: _polling,
    Unseen.DROPPED: _dropped,
    Unseen.MISSING_RANKS: _missing_ranks,
    Unseen.DOUBLE_RANKS: lambda remark: _("more than one trace claims rank {rank}: are they of different jobs?").format(
        rank=remark.detail
    ),
    Unseen.LEFT_OUT: _left_out,
}
