"""Reads the fields of a config.json one by one, and says plainly which one is missing or makes no sense."""

from dataclasses import dataclass
from typing import Any

from redline.errors import InputError

_MOST_LAYERS = 10_000  # tens of times as many as any model has, as is the next
_MOST = 20_000_000


@dataclass(frozen=True)
class Fields:
    """The fields of one model, and where they come from."""

    where: str
    family: str
    values: dict[str, Any]

    def count(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """A whole number under the first of these names that is there and not null."""
        for name in names:
            value = self.values.get(name)
            if value is not None:
                return self._checked(name, value, least)
        if default is None:
            raise InputError(
                f"{self.where}: a model of type {self.family!r} needs the field {names[0]!r}.\n"
                "Add it, as in the config.json that the model was published with."
            )
        return default

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InputError(f"{self.where}: {name!r} is {value!r:.40}, but only true or false make sense there.")
        return value

    def items(self, name: str) -> list[Any] | None:
        """A list, or nothing where there is none."""
        value = self.values.get(name)
        if value is not None and (not isinstance(value, list) or len(value) > _MOST_LAYERS):
            raise InputError(
                f"{self.where}: {name!r} is {value!r:.40}, but a list of at most {_MOST_LAYERS:,} belongs there."
            )
        return value

    def text(self, name: str, default: str) -> str:
        value = self.values.get(name)
        return default if value is None else str(value)

    def refuse(self, what: str) -> InputError:
        """For parts of a model that cannot be described here."""
        return InputError(
            f"{self.where}: {what} cannot be described by numbers alone.\n"
            "Give the model as a function that builds it (path.py:function)."
        )

    def unequal(self, hidden: int, heads: int) -> InputError:
        """Heads that do not divide the width."""
        return InputError(
            f"{self.where}: {heads} heads do not divide a hidden width of {hidden}.\n"
            "Add 'head_dim', or correct one of the two."
        )

    def _checked(self, name: str, value: object, least: int) -> int:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        most = _MOST_LAYERS if "layer" in name else _MOST
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise InputError(
                f"{self.where}: {name!r} is {value!r:.40}, but a whole number from {least} to {most:,} belongs there."
            )
        return number
