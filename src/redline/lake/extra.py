"""The packages that the lake needs, imported when it is used; they are the extra `lake`."""

from importlib import import_module
from typing import Any

from redline.errors import UsageError

_INSTALL = "lake needs pyarrow and duckdb: pip install 'redline-perf[lake]'"


def pyarrow() -> Any:
    return _imported("pyarrow")


def compute() -> Any:
    return _imported("pyarrow.compute")


def parquet() -> Any:
    return _imported("pyarrow.parquet")


def dataset() -> Any:
    return _imported("pyarrow.dataset")


def duckdb() -> Any:
    return _imported("duckdb")


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(_INSTALL) from error
