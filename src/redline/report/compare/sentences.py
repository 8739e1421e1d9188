"""What a comparison says in words: its verdict, what to know before believing it, names of what else differs."""

from collections.abc import Iterator, Mapping

from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.fact_messages import anchor_text
from redline.report.language import _, listed, marked, translate_rendered
from redline.report.text_parts import clipped, percent
from redline.trials.recordings import BETWEEN_PROCESSES, LEAST_WORTH, Judgement, RecordingDifference
from redline.trials.run_facts import ALLOCATED, RESERVED, RESIDENT
from redline.units import format_ns

Sides = tuple[DiagnoseResult, DiagnoseResult]  # before and after


def verdict_sentence(difference: RecordingDifference) -> str:
    values = {
        "before": format_ns(round(difference.step.before_ns)),
        "after": format_ns(round(difference.step.after_ns)),
        "change": percent(abs(difference.change)),
    }
    if not difference.judgement.of_measurements:
        return _unmeasured(difference, values)
    if difference.judgement is Judgement.OTHER_WORK:
        return _other_work(difference, values)
    if difference.judgement is Judgement.FASTER:
        return _("Faster: the average step takes {after} instead of {before}, {change} less.").format(**values)
    if difference.judgement is Judgement.SLOWER:
        return _("Slower: the average step takes {after} instead of {before}, {change} more.").format(**values)
    values["change"] = signed(difference.change)
    return _("Undecided: the average step takes {after} instead of {before}, {change}.").format(**values)


def _unmeasured(difference: RecordingDifference, values: Mapping[str, str]) -> str:
    """A plan or a what-if is never called faster or slower: nobody has measured it."""
    first, second = (
        _("altered by {changes}").format(changes=clipped(changes, 200))
        if changes
        else _("a plan")
        if predicted
        else _("a recording")
        for changes, predicted in zip(difference.altered, difference.predicted, strict=True)
    )
    return _(
        "Not measured on both sides: before is {first}, after is {second}. The average step is {after} instead of "
        "{before}, {change}."
    ).format(
        first=first,
        second=second,
        before=values["before"],
        after=values["after"],
        change=signed(difference.change),
    )


def _other_work(difference: RecordingDifference, values: Mapping[str, str]) -> str:
    """Longer steps that do more work are not slower ones."""
    work = difference.work
    text = _(
        "The known work differs: the average step has {flops_after} FLOPs instead of {flops_before} ({work}), and "
        "takes {after} instead of {before} ({time})."
    )
    return text.format(
        before=values["before"],
        after=values["after"],
        time=signed(difference.change),
        work=signed(work.change),
        flops_before=f"{work.before_flops:.3g}",
        flops_after=f"{work.after_flops:.3g}",
    )


def spread_sentences(difference: RecordingDifference, both: Sides) -> list[str]:
    if difference.judgement.of_measurements:
        return [median_sentence(difference), interval_sentence(difference)]
    sides = zip(difference.medians_ns, both, strict=True)
    return [
        sentence
        for median_ns, side in sides
        if not (side.diagnosis.predicted or side.diagnosis.altered)
        for sentence in _measured(median_ns, side)
    ]


def _measured(median_ns: float, diagnosed: DiagnoseResult) -> Iterator[str]:
    """Of the run that a plan or a what-if is held against: these know nothing of recording."""
    yield _("The median step that was recorded took {time}.").format(time=format_ns(round(median_ns)))
    usual_ns = diagnosed.captured.usual_step_ns if diagnosed.captured else None
    if usual_ns is not None:
        yield _("The median step that was not recorded took {time}.").format(time=format_ns(usual_ns))


def median_sentence(difference: RecordingDifference) -> str:
    """A few long steps move the average, and not the median."""
    before_ns, after_ns = difference.medians_ns
    return _("The median step takes {after} instead of {before}, {change}.").format(
        before=format_ns(round(before_ns)),
        after=format_ns(round(after_ns)),
        change=signed(after_ns / before_ns - 1 if before_ns else 0.0),
    )


def interval_sentence(difference: RecordingDifference) -> str:
    if difference.interval is None:
        return _("There are too few steps to say how much they spread.")
    low, high = difference.interval.low, difference.interval.high
    return _("By the spread of their own steps the change of the average is {low} to {high} (95 %).").format(
        low=signed(low), high=signed(high)
    )


def signed(ratio: float) -> str:
    return f"{100 * ratio:+.1f} %"


def doubts(difference: RecordingDifference, both: Sides) -> Iterator[str]:
    """What weakens any conclusion, each once."""
    if difference.judgement is Judgement.OTHER_WORK:
        yield _work_doubt(difference)
    if difference.judgement is Judgement.ALTERED:
        yield _("A replay says what becomes of the times alone; measure the change before you rely on it.")
    if difference.judgement.of_measurements:
        yield _(
            "The recordings were not interleaved: two processes of one program differed by up to {most}, so a "
            "difference below {least} is no proof."
        ).format(most=percent(BETWEEN_PROCESSES), least=percent(float(LEAST_WORTH)))
    slowdowns = [found.captured.slowdown if found.captured else None for found in both]
    known = [slowdown for slowdown in slowdowns if slowdown is not None]
    if known and max(known) > 1.1:
        yield _("Recording made steps up to {times:.2f} x as long, and not each account alike.").format(
            times=max(known)
        )
    if difference.context:
        names = listed(context_name(row.what) for row in difference.context)
        yield _("These differ too: {names}.").format(names=names)


def _work_doubt(difference: RecordingDifference) -> str:
    work = difference.work
    if not work.covered_alike:
        return _(
            "FLOPs are known for {after} instead of {before} of the kernel time, so work may have moved to kernels "
            "whose FLOPs are unknown: the times alone do not tell which is faster."
        ).format(before=percent(work.before_known), after=percent(work.after_known))
    per_flop = (1 + difference.change) / (1 + work.change) - 1
    return _("The times alone do not tell which is faster; the time per FLOP changed by {change}.").format(
        change=signed(per_flop)
    )


# --- names ------------------------------------------------------------------------------------------------------------


_VALUE_LETTERS = 44
_VERSION = "version of "
CONTEXT: Mapping[str, str] = {
    "ranks": marked("number of ranks"),
    "world size": marked("world size"),
    "device": marked("device"),
    "machine": marked("figures used"),
    "hosts": marked("hosts"),
    "backend": marked("backend"),
    "recorded": marked("recorded with"),
    "steps by": marked("steps counted from"),
    "FLOPs per step": marked("known FLOPs per step"),
    "command": marked("command"),
    "CPU": marked("CPU"),
    "cores": marked("cores"),
    "system": marked("system"),
}
MEMORY: Mapping[str, str] = {
    RESIDENT: marked("host memory of a process"),
    ALLOCATED: marked("allocated on the device"),
    RESERVED: marked("reserved on the device"),
}
_SIZES = (marked("{bytes}, {count} ranks"), marked("{count} ranks"))  # of collectives, as the comparison writes them


def context_name(what: str) -> str:
    if what.startswith(_VERSION):
        return _("version of {name}").format(name=clipped(what.removeprefix(_VERSION), _VALUE_LETTERS))
    return _(CONTEXT[what])


def context_value(what: str, value: str) -> str:
    """Steps are told by a sentence of ours; all else is as it was recorded."""
    if what == "steps by" and value:
        return anchor_text(value)
    return clipped(value, _VALUE_LETTERS) or "-"


def collective_size(detail: str) -> str:
    return clipped(translate_rendered(detail, _SIZES), _VALUE_LETTERS)


def memory_name(name: str) -> str:
    return _(MEMORY[name])
