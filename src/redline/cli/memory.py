"""`redline memory` on the command line."""

from __future__ import annotations

from redline.cli.arguments import add_language, add_output, format_of, language, refuse_unknown_format, size_bytes
from redline.cli.output import deliver, for_stdout, tell_tracebacks
from redline.cli.show_progress import progress
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

FORMATS = {".html": "html", ".json": "json", ".md": "md", ".txt": "text"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a memory snapshot (torch.cuda.memory._dump_snapshot), a trace with memory events (redline run --memory), "
        "a folder or a glob pattern",
    )
    parser.add_argument(
        "--device-memory",
        type=size_bytes,
        metavar="SIZE",
        default=0,
        help="memory of the device, such as 79.25GiB: adds what is outside of torch",
    )
    parser.add_argument(
        "--plan",
        metavar="FILE",
        help="JSON of `redline plan train`: the memory that it predicts beside the measured one",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    form.add_argument(
        "--format", choices=sorted(FORMATS.values()), metavar="FORMAT", help="text, html, md or json (default: text)"
    )
    add_language(parser)
    add_output(parser, verbose="tracebacks for files that Redline fails on")


def run(options: argparse.Namespace) -> int:
    from redline.report.language import speaking
    from redline.verbs.memory import memory

    refuse_unknown_format("memory", options.output, tuple(FORMATS))
    form = format_of(options, FORMATS)
    if form == "html" and options.output is None:
        raise UsageError("memory: a page is a long text; give it a file, such as -o memory.html")
    with progress(options) as tell:
        result = memory(options.paths, device_bytes=options.device_memory, plan=options.plan, progress=tell)
    with speaking(language(options)), for_stdout(options.output if form == "text" else form):
        text = result.rendered(form)
    deliver(text, options.output, force=options.force)
    tell_tracebacks(result.failures, options)
    return 0
