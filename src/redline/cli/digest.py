"""`redline digest` on the command line."""

from __future__ import annotations

from redline.cli.arguments import add_machine, add_reading, add_step, job_options
from redline.cli.output import point_to, progress, quoted, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_reading(parser)
    parser.add_argument("-o", "--output", metavar="FOLDER", required=True, help="where the digests go, one per rank")
    add_machine(parser)
    add_step(parser)
    parser.add_argument("--force", action="store_true", help="replace digests where they exist")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")


def run(options: argparse.Namespace) -> int:
    from redline.report import digest_text
    from redline.verbs.digest import digest

    written = digest(
        options.paths,
        options.output,
        machine=options.machine,
        force=options.force,
        options=job_options(options),
        progress=progress(options),
    )
    show(
        digest_text.render(
            options.output,
            ranks=len(written.paths),
            size_bytes=written.size_bytes,
            largest_bytes=written.largest_bytes,
            left_out=written.left_out,
            failures=written.failures,
        )
    )
    if not options.quiet:
        point_to(f"redline diagnose {quoted([options.output])}")
    return 0
