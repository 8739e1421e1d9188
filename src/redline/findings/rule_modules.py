"""Where the modules of rules lie, and what findings they are of: known without importing them, which takes long."""

import re
from pkgutil import get_data, iter_modules

from redline.findings import rules

LIMITS = ("input", "host", "kernels", "communication", "memory", "serving", "remarks")
"""Limits of a job in the order in which they are shown; the name of a module of rules begins with one."""
_RULE = re.compile(rb'^@rule\(\s*"(RL-[A-Z]+[0-9]+)"', re.MULTILINE)


def modules_of(limit: str) -> list[str]:
    names = (module.name for module in iter_modules(rules.__path__))
    return [name for name in names if name.partition("_")[0] == limit]


def codes_of(limit: str) -> list[str]:
    """In order."""
    sources = (get_data(rules.__name__, f"{name}.py") or b"" for name in modules_of(limit))
    return sorted(code.decode() for source in sources for code in _RULE.findall(source))
