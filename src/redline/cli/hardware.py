"""`redline hardware` on the command line."""

from __future__ import annotations

from redline.cli.arguments import TextOrJson, refuse_unknown_format
from redline.cli.options import Verb, words
from redline.cli.output import deliver, for_stdout


class HardwareOptions(TextOrJson):
    """Show peak figures of accelerators, with their sources."""

    verb = "hardware"
    example = "redline hardware H100-SXM5-80GB"
    name: str | None = words("NAME", "a record, part of its name, or a profile (.json)", nargs="?")


def run(options: HardwareOptions) -> int:
    from redline.report import hardware
    from redline.report.data import json_text
    from redline.report.terminal import text_of
    from redline.verbs.hardware import find_hardware

    refuse_unknown_format("hardware", options.output)
    machines = find_hardware(options.name)
    if options.wants_json:
        text = json_text(hardware.record(machines))
    else:
        with for_stdout(options.output):
            is_one = options.name is not None and len(machines) == 1
            text = text_of(hardware.document_of(machines[0]) if is_one else hardware.document_of_all(machines))
    deliver(text, options.output, force=options.force)
    return 0


VERB = Verb(HardwareOptions, run)
