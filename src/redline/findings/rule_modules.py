"""Where the modules of rules lie, and what findings they are of: known without importing them, which takes long."""

import re
from importlib import import_module
from pkgutil import get_data, iter_modules

from redline.findings import rules

FOLDERS = ("input", "host", "kernels", "communication", "memory", "serving", "remarks")
"""By what limits the job, in the order in which they are shown."""
_FIRST_LINE = re.compile(rb'"""(RL-[A-Z]+[0-9]+)')


def modules_in(folder: str) -> list[str]:
    package = import_module(f"{rules.__name__}.{folder}")
    return [f"{package.__name__}.{module.name}" for module in iter_modules(package.__path__)]


def codes_in(folder: str) -> list[str]:
    """In order. The first line of a rule begins with its code."""
    paths = (module.rpartition(".") for module in modules_in(folder))
    sources = (get_data(package, f"{name}.py") or b"" for package, _dot, name in paths)
    return sorted(match[1].decode() for match in map(_FIRST_LINE.match, sources) if match)
