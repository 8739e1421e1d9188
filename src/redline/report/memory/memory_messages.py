"""Sentences about memory: what was asked for, what was free, and what would have fitted."""

from collections.abc import Iterator, Sequence

from redline.findings.pages import page_of
from redline.job.read_failures import Failure, unread_of
from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.causes import MemoryCause
from redline.ledger.memory.device_memory import DeviceMemory
from redline.ledger.memory.memory_course import MemoryGrowth
from redline.ledger.memory.out_of_memory import FitChange, OutOfMemory, PossibleChange
from redline.report.language import _, marked, ngettext, sentences, spoken
from redline.report.text_parts import percent
from redline.units import format_memory

ACCOUNT_NAMES = {
    MemoryAccount.PARAMETERS: marked("parameters"),
    MemoryAccount.GRADIENTS: marked("gradients"),
    MemoryAccount.OPTIMIZER_STATES: marked("optimizer states"),
    MemoryAccount.ACTIVATIONS: marked("activations"),
    MemoryAccount.COMMUNICATION: marked("gathered weights and communication"),
    MemoryAccount.BACKWARD: marked("backward pass, gradients or temporaries"),
    MemoryAccount.TEMPORARIES: marked("temporaries and workspaces"),
    MemoryAccount.LOGITS: marked("logits and loss"),
    MemoryAccount.INPUTS: marked("inputs"),
    MemoryAccount.UNKNOWN: marked("unknown"),
    MemoryAccount.CACHED: marked("cached but free"),
}
_CHANGES = {
    FitChange.EXPANDABLE_SEGMENTS: marked(
        "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which can use what is cached in pieces"
    ),
    FitChange.CLEAR_GRADIENTS: marked("clear gradients before the forward pass: zero_grad(set_to_none=True)"),
    FitChange.CHUNKED_LOSS: marked("compute the loss in chunks or fused with the last layer (most at {site})"),
    FitChange.RECOMPUTE: marked("recompute activations in the backward pass, which costs time (most at {site})"),
    FitChange.SMALLER_BATCH: marked("half the batch or sequence length per device"),
    FitChange.SHARD_STATES: marked("shard optimizer states over ranks, or offload them"),
}
_DTYPES = {4: "fp32", 2: "fp16/bf16"}


def headline_of(device: DeviceMemory, files: int, failures: Sequence[Failure]) -> str:
    """With how many files could not be read, where there are any."""
    unread = unread_of(failures)
    text = ngettext(
        "{unread:,} of {files:,} files could not be read.", "{unread:,} of {files:,} files could not be read.", unread
    )
    return sentences([text.format(unread=unread, files=unread + files) if unread else "", headline(device)])


def headline(device: DeviceMemory) -> str:
    """What happened, in one sentence."""
    failure = device.failure
    if failure is None and device.is_host:
        return _("Peak: {live} in use by torch on the host").format(live=format_memory(device.peak.live_bytes))
    if failure is None:
        return _("Peak: {live} in use, {reserved} reserved").format(
            live=format_memory(device.peak.live_bytes), reserved=format_memory(device.peak.reserved_bytes)
        )
    asked = format_memory(failure.asked_bytes)
    if not failure.short_bytes:
        return _("Out of memory: {asked} asked at {site}, though the driver had it free").format(
            asked=asked, site=failure.site or _("an unknown place")
        )
    return _("Out of memory: {asked} asked at {site}, {short} more than the driver had free").format(
        asked=asked, site=failure.site or _("an unknown place"), short=format_memory(failure.short_bytes)
    )


def purpose(failure: OutOfMemory) -> str:
    """What the request was for, as far as that is proven."""
    if failure.shape is None:
        return _(ACCOUNT_NAMES[failure.account])
    shape = failure.shape
    return _("logits in {dtype}: {tokens:,} tokens x {words:,} words x {size} bytes").format(
        dtype=_DTYPES[shape.element_bytes], tokens=shape.tokens, words=shape.vocabulary, size=shape.element_bytes
    )


def free_memory(failure: OutOfMemory) -> str:
    """What was free, and why it did not help."""
    driver = _("{free} at the driver.").format(free=format_memory(failure.driver_free_bytes))
    if not failure.short_bytes:
        return sentences([driver, _("A limit of the process was in the way, such as set_per_process_memory_fraction.")])
    holes = failure.ledger.holes
    if not holes:
        return sentences([driver, _("Nothing was cached.")])
    cached = ngettext(
        "{cached} cached in {count} piece, the largest {largest}: too small.",
        "{cached} cached in {count} pieces, the largest {largest}: too small.",
        len(holes),
    ).format(cached=format_memory(sum(holes)), count=len(holes), largest=format_memory(holes[0]))
    return sentences([driver, cached, _expandable(failure)])


def _expandable(failure: OutOfMemory) -> str:
    if failure.has_expandable:
        return _("Expandable segments were on.")
    if failure.in_pieces_bytes >= failure.needed_bytes:
        return _("Expandable segments would have served this request; what follows it may need more.")
    return _("Expandable segments would not have served it: {free} in whole pages.").format(
        free=format_memory(failure.in_pieces_bytes)
    )


def change_line(change: PossibleChange) -> str:
    """One change with what it saves."""
    what = _(_CHANGES[change.change]).format(site=change.site or _("an unknown place"))
    saved = format_memory(change.saves_bytes)
    if change.would_fit:
        return _("{what}: saves up to {saved}, enough for this request").format(what=what, saved=saved)
    return _("{what}: saves up to {saved}").format(what=what, saved=saved)


def cause_line(cause: MemoryCause) -> str:
    """One cause with the most that mending it saves."""
    title, size = page_of(cause.code, spoken()).title, format_memory(cause.saves_bytes)
    if "times" in cause.figures:
        return _("{code} {title}: {free} are free, enough for up to {times:.1f} times the batch").format(
            code=cause.code, title=title, free=format_memory(int(cause.figures["free_bytes"])), **cause.figures
        )
    if not cause.site:
        return _("{code} {title}: saves at most {size}").format(code=cause.code, title=title, size=size)
    line = _("{code} {title}: saves at most {size}, most of it at {site}").format(
        code=cause.code, title=title, size=size, site=cause.site
    )
    if "forward_share" not in cause.figures:
        return line
    costs = percent(cause.figures["forward_share"])
    return _("{line}; costs at most {share} of a step's time").format(line=line, share=costs)


def steps_sentence(device: DeviceMemory) -> str:
    """How the peak went from step to step; "" where steps are not known."""
    if not device.steps:
        return ""
    first, last = device.steps[0], device.steps[-1]
    text = ngettext(
        "{count} step, with a peak of {last}",
        "{count} steps: a peak of {first} in the first, of {last} in the last",
        len(device.steps),
    )
    return text.format(
        count=len(device.steps), first=format_memory(first.peak_bytes), last=format_memory(last.peak_bytes)
    )


def growth_sentence(growth: MemoryGrowth) -> str:
    """What one call site adds in every step."""
    return _("{size} more in every step at {site} ({account}): seen in {steps} steps, {held} held in the end").format(
        size=format_memory(growth.bytes_per_step),
        site=growth.site or _("an unknown place"),
        account=_(ACCOUNT_NAMES[growth.account]),
        steps=growth.steps,
        held=format_memory(growth.held_bytes),
    )


def remarks(device: DeviceMemory, outside_bytes: int | None) -> Iterator[str]:
    """What weakens the figures, or adds to them; `outside_bytes` is what was outside of torch, where that is known."""
    yield from _of_trace(device) if device.is_trace else _of_snapshot(device, outside_bytes)


def _of_trace(device: DeviceMemory) -> Iterator[str]:
    if not device.has_sites:
        yield _("A timeline of torch tells categories alone: neither call sites, nor the device, nor what is cached.")
    yield from doubts(device)
    if device.is_host:
        yield _("On the host, what was there before the recording counts if a model or an optimizer holds it.")


def doubts(device: DeviceMemory) -> Iterator[str]:
    """What weakens the figures of a device that a trace tells of."""
    before_bytes = device.peak.before_bytes
    if before_bytes:
        yield _(
            "{size} was in use before the recording began, and nobody said what for; `redline run --memory` records "
            "who holds parameters, gradients and optimizer states."
        ).format(size=format_memory(before_bytes))
    if device.missed:
        yield _("{count:,} events are missing in the trace: blocks that were allocated or freed twice.").format(
            count=device.missed
        )


def _of_snapshot(device: DeviceMemory, outside_bytes: int | None) -> Iterator[str]:
    ledger = device.shown
    if ledger.before_bytes:
        yield _("{size} was allocated before the history began and has no stack.").format(
            size=format_memory(ledger.before_bytes)
        )
    if ledger.no_stack_bytes > ledger.before_bytes:
        yield _("{size} was allocated by threads without a stack of Python, as autograd has.").format(
            size=format_memory(ledger.no_stack_bytes - ledger.before_bytes)
        )
    if ledger.accounts[MemoryAccount.PARAMETERS] and ledger.before_bytes:
        yield _("Parameters without a stack are named by their sizes: one for each weight that FSDP gathers.")
    if outside_bytes is not None:
        yield _("{size} was outside of torch: the CUDA context, NCCL, other processes.").format(
            size=format_memory(outside_bytes)
        )
    if device.failures > 1:
        yield _("{count:,} requests failed; this is the last.").format(count=device.failures)
    if not device.history_is_whole:
        yield _("The file is cut: its history is not used, and what is shown is the moment of the snapshot.")
    elif device.contradictions:
        yield _(
            "The history contradicts the blocks ({count:,} events): only the moment of the snapshot is shown."
        ).format(count=device.contradictions)
    elif not device.events:
        yield _("There is no history: what is shown is the moment of the snapshot.")
