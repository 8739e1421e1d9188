"""Nested mappings as YAML, for configs that frameworks read."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def yaml_text(values: Mapping[str, Any]) -> str:
    return "\n".join(_lines(values, "")) + "\n"


def _lines(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _lines(value, f"{indent}  ")
        else:
            # JSON's scalars and lists are YAML's as well, but for numbers like 1e-08, which YAML 1.1 reads as text.
            yield f"{indent}{key}: {_number(value) if isinstance(value, float) else json.dumps(value)}"


def _number(value: float) -> str:
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
