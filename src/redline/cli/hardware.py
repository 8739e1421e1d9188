"""`redline hardware` on the command line."""

from __future__ import annotations

from redline.cli.arguments import add_one_output, refuse_unknown_format
from redline.cli.output import deliver, for_stdout

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a record, part of its name, or a profile (.json)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_one_output(parser)


def run(options: argparse.Namespace) -> int:
    from redline.report.hardware import json as hardware_json
    from redline.report.hardware import text as hardware_text
    from redline.verbs.hardware import find_hardware

    refuse_unknown_format("hardware", options.output)
    machines = find_hardware(options.name)
    if options.json or str(options.output or "").endswith(".json"):
        text = hardware_json.render(machines)
    else:
        with for_stdout(options.output):
            is_one = options.name is not None and len(machines) == 1
            text = hardware_text.render_one(machines[0]) if is_one else hardware_text.render_table(machines)
    deliver(text, options.output, force=options.force)
    return 0
