"""Names of what else differs between two recordings, and of their peaks of memory, in the language spoken."""

from collections.abc import Mapping

from redline.report.diagnose.fact_messages import anchor_text
from redline.report.language import _, marked, translate_rendered
from redline.report.text_parts import clipped
from redline.trials.run_facts import ALLOCATED, RESERVED, RESIDENT

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
_SIZES = (marked("{bytes}, {count} ranks"), marked("{count} ranks"))
"""Of collectives, as the comparison writes them."""


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
