"""The `dataclass` of values: as in the standard library, but frozen classes are made ten times as fast.

For each frozen class the standard library compiles six functions; a command loads some 250 classes and makes objects of
few of them. Here the functions are shared, but for `__init__`, which is compiled when the first object is made.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["common_fields", "dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **asked: bool) -> Any:
        if cls is None:
            return lambda cls: dataclass(cls, **asked)
        if not asked.get("frozen") or asked.get("order"):
            return dataclasses.dataclass(cls, **asked)
        return _frozen(cls, **asked)


def common_fields(record: object, kind: type) -> dict[str, Any]:
    """The fields of a record that another class has under the same name, to make one of that class."""
    names = _common(type(record), kind)  # type: ignore[arg-type]  # classes are hashable
    return {name: getattr(record, name) for name in names}


@cache
def _common(*kinds: type) -> tuple[str, ...]:
    first, second = ({field.name: None for field in dataclasses.fields(kind)} for kind in kinds)
    return tuple(name for name in first if name in second)


def _frozen(
    cls: type,
    *,
    frozen: bool,
    kw_only: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,  # noqa: A002
) -> Any:
    own = set(vars(cls))
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    fields = dataclasses.fields(made)
    methods: dict[str, Any] = {
        "__init__": _init_of(made),
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
    }
    if repr:
        methods["__repr__"] = _repr
    if eq:
        compared = _values_of([field.name for field in fields if field.compare])
        hashed = _values_of([field.name for field in fields if (field.compare if field.hash is None else field.hash)])
        methods |= {"__eq__": _eq_by(compared), "__hash__": lambda self: hash(hashed(self))}
    if slots:
        methods |= {"__getstate__": _state, "__setstate__": _take_state}
    for name, method in methods.items():
        if name not in own or (name == "__hash__" and vars(cls)["__hash__"] is None):
            setattr(made, name, method)
    return made


def _init_of(cls: type) -> Callable[..., None]:
    """What makes the first object; it puts the compiled function in its own place."""

    def first(self: Any, *args: Any, **values: Any) -> None:
        init = _compiled(cls)
        type.__setattr__(cls, "__init__", init)
        init(self, *args, **values)

    return first


def _compiled(cls: Any) -> Callable[..., None]:
    known: dict[str, Any] = {"_set": object.__setattr__, "_made": _MADE}
    by_place: list[str] = []
    by_name, lines = ["*"], list[str]()
    for field in dataclasses.fields(cls):
        (by_name if field.kw_only else by_place).append(_parameter(field, known))
        made = f"_{field.name}() if {field.name} is _made else {field.name}"
        value = made if field.default_factory is not MISSING else field.name
        lines.append(f"    _set(self, {field.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    parameters = ["self", *by_place, *(by_name if len(by_name) > 1 else [])]
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *lines, "    return None"]), known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


_MADE = object()


def _parameter(field: Field[Any], known: dict[str, Any]) -> str:
    if field.default_factory is not MISSING:
        known[f"_{field.name}"] = field.default_factory
        return f"{field.name}=_made"
    if field.default is not MISSING:
        known[f"_{field.name}"] = field.default
        return f"{field.name}=_{field.name}"
    return field.name


def _values_of(names: list[str]) -> Callable[[Any], Any]:
    if not names:
        return lambda self: ()
    if len(names) == 1:
        return lambda self: (getattr(self, names[0]),)
    return attrgetter(*names)


def _eq_by(values: Callable[[Any], Any]) -> Callable[[Any, object], Any]:
    return lambda self, other: values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented


def _repr(self: Any) -> str:
    told = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(told)})"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _take_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
