"""Parameters that a message names as Python does, such as `machine=NAME`, spelled as options of the command line."""

import re

_PARAMETER = re.compile(r"`([a-z_]+)=(True|\.\.\.|'?[\w.-]+'?)`")
_RENAMED = {"budget_bytes": "budget"}


def as_options(text: str) -> str:
    """`force=True` becomes --force, `machine=NAME` --machine NAME, and `budget=...` --budget."""
    return _PARAMETER.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    name, value = match.groups()
    option = f"--{_RENAMED.get(name, name).replace('_', '-')}"
    return option if value in ("True", "...") else f"{option} {value.strip(chr(39))}"
