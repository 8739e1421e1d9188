"""What the package says of its accuracy is what its measurements say."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bench.plan.validate import validate
from redline.plan.accuracy import accuracy_of


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{name}[{number}]")
    else:
        yield name, value


def test_the_committed_tables_are_what_the_measurements_say() -> None:
    """Where they are not: python -m bench.plan, then scripts.draw_accuracy."""
    written, computed = dict(leaves(accuracy_of("validation"))), dict(leaves(msgspec.to_builtins(validate())))
    assert set(written) == {".how", *computed}
    assert len(written) > 5000
    for name, value in computed.items():
        # Machines round differently, so that a row may change sides.
        close = pytest.approx(value, rel=0.02, abs=0.005) if isinstance(value, float) else value
        assert written[name] == close, name
