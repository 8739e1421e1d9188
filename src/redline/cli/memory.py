"""`redline memory` on the command line."""

from __future__ import annotations

from redline.cli.arguments import Report, deliver_report, formats, refuse_unknown_format
from redline.cli.options import Verb, value, words
from redline.cli.output import code_of_read, tell_tracebacks
from redline.cli.show_progress import progress
from redline.cli.values import size_bytes
from redline.errors import UsageError


class MemoryOptions(Report):
    """Show what holds the memory at its peak, and why an allocation failed."""

    verb = "memory"
    example = "redline memory snapshot.pickle --device-memory 79.25GiB"
    paths: tuple[str, ...] = words(
        "PATH",
        "a memory snapshot (torch.cuda.memory._dump_snapshot), a trace with memory events (redline run --memory), "
        "a folder or a glob pattern",
    )
    device_memory: int = value(
        "SIZE", "memory of the device, such as 79.25GiB: adds what is outside of torch", default=0, read=size_bytes
    )
    plan: str | None = value(
        "FILE", "JSON of `redline plan train`: the memory that it predicts beside the measured one"
    )
    format: str | None = formats("text", "html", "md", "json")


def run(options: MemoryOptions) -> int:
    from redline.verbs.memory import memory

    refuse_unknown_format("memory", options.output, (".html", ".json", ".md", ".txt"))
    if options.form == "html" and options.output is None:
        raise UsageError("memory: a page is a long text; give it a file, such as -o memory.html")
    with progress(options) as tell:
        result = memory(options.paths, device_bytes=options.device_memory, plan=options.plan, progress=tell)
    deliver_report(options, result.rendered)
    tell_tracebacks(result.failures, verbose=options.verbose)
    return code_of_read(len(result.devices), result.failures)


VERB = Verb(MemoryOptions, run)
