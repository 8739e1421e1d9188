"""The tables of a diagnosis as data frames of pandas, which is imported here and nowhere else."""

from typing import TYPE_CHECKING

from redline.report.diagnose.raw_tables import Column, RawTable

if TYPE_CHECKING:
    import pandas as pd

_TYPES = {"text": "object", "whole": "int64", "number": "float64"}


def frame_of(table: RawTable) -> "pd.DataFrame":
    """Missing numbers are NaN."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("data frames need pandas: pip install 'redline-perf[frames]'") from error
    places = range(len(table.columns))
    return pd.DataFrame({table.columns[place].name: _series(table, place, table.columns[place]) for place in places})


def _series(table: RawTable, place: int, column: Column) -> "pd.Series":
    import pandas as pd

    return pd.Series([row[place] for row in table.rows], dtype=_TYPES[column.kind])
