"""Changes that Redline can switch in an unchanged script, as users write them: `fused`, `workers=4`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from redline.capture.lever_kinds import KINDS, NUMBER, PRELOAD, LeverKind
from redline.errors import UsageError

TYPE_CHECKING = False  # this runs in the user's process: it imports next to nothing
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OF_ENVIRONMENT = "env:"
_ALLOCATORS = {
    "jemalloc": ("libjemalloc.so.2", "libjemalloc.so.1", "libjemalloc.so"),
    "tcmalloc": ("libtcmalloc.so.4", "libtcmalloc_minimal.so.4", "libtcmalloc.so", "libtcmalloc_minimal.so"),
}
_ARCHITECTURE = os.uname().machine
_FOLDERS = (
    f"/usr/lib/{_ARCHITECTURE}-linux-gnu",
    f"/lib/{_ARCHITECTURE}-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
)


@dataclass(frozen=True)
class Lever:
    """A change as a user asks for it: `fused`, `workers=4`."""

    kind: LeverKind
    value: str = ""

    def __str__(self) -> str:
        return f"{self.kind.name}={self.value}" if self.value else self.kind.name


def parse_lever(text: str) -> Lever:
    """Raises UsageError, which names the levers that there are."""
    name, equals, value = text.partition("=")
    if name.startswith(_OF_ENVIRONMENT):
        return _of_environment(name, value, is_given=bool(equals))
    kind = KINDS.get(name)
    if kind is None:
        raise UsageError(f"there is no lever {name!r}; there are: {', '.join(KINDS)}")
    if value and not kind.values:
        raise UsageError(f"lever {name} takes no value")
    value = value or kind.default
    if kind.values and not value:
        raise UsageError(f"lever {name} needs a value: {name}={kind.values}")
    _check_value(kind, value)
    return Lever(kind, value)


def environment_of_all(levers: Sequence[str], inherited: Mapping[str, str]) -> dict[str, str]:
    """All variables of a process that begins with these levers."""
    environment = dict(inherited)
    for lever in levers:
        environment |= environment_of(parse_lever(lever), environment)
    return environment


def environment_of(lever: Lever, inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables that a process must begin with to have this change; none for one that is made inside of it."""
    if lever.kind.name == PRELOAD:
        return with_allocator(lever.value, inherited)
    variables = {name: value.format(lever.value) for name, value in lever.kind.environment}
    name = next((name for name in lever.kind.added_to if name in inherited), None)
    return variables if name is None else {name: _added(inherited[name], *variables.values())}


def _added(settings: str, setting: str) -> str:
    """To `key:value,key:value`; other values of the same key are gone."""
    key = setting.partition(":")[0]
    others = [part for part in settings.split(",") if part.strip() and part.partition(":")[0].strip() != key]
    return ",".join([*others, setting])


def _of_environment(name: str, value: str, *, is_given: bool) -> Lever:
    """The variable is a part of the name: two of them are two levers."""
    variable = name.removeprefix(_OF_ENVIRONMENT)
    if not variable or not is_given:
        raise UsageError("a variable of the environment is written env:NAME=VALUE")
    return Lever(replace(KINDS["env:NAME"], name=name, environment=((variable, "{}"),)), value)


def _check_value(kind: LeverKind, value: str) -> None:
    if kind.values == NUMBER:
        if not (value.isascii() and value.isdecimal() and int(value) >= kind.least):
            raise UsageError(f"lever {kind.name} needs a whole number from {kind.least} on, not {value!r}")
    elif kind.values.islower() and value not in kind.values.split("|"):
        raise UsageError(f"lever {kind.name} has no value {value!r}; it has: {kind.values.replace('|', ', ')}")


def with_allocator(name: str, inherited: Mapping[str, str]) -> dict[str, str]:
    """LD_PRELOAD with the library in front of what is there already; nothing where the machine does not have it."""
    library = _allocator_path(name, inherited)
    if library is None:
        return {}
    others = [path for path in inherited.get("LD_PRELOAD", "").replace(":", " ").split() if path != library]
    return {"LD_PRELOAD": ":".join([library, *others])}


def _allocator_path(name: str, inherited: Mapping[str, str]) -> str | None:
    conda = inherited.get("CONDA_PREFIX", "")
    of_user = [*inherited.get("LD_LIBRARY_PATH", "").split(":"), f"{conda}/lib" if conda else ""]
    paths = (f"{folder}/{file}" for folder in (*of_user, *_FOLDERS) if folder for file in _ALLOCATORS[name])
    return next((path for path in paths if os.path.isfile(path)), None)  # noqa: PTH113 (pathlib is slow to import)
