"""The published measurements as they stand in their files: columns of text and of numbers, with NaN for blanks."""

import csv
import gzip
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]

DATA = Path(__file__).parent / "data"
# A set that has been scored is no longer unseen when constants change after it: then it takes a new one.
UNTOUCHED = {1: "untouched_runs.csv", 2: "untouched_runs_2.csv"}


@dataclass(frozen=True)
class Rows:
    """Text by column name; all columns are equally long."""

    columns: dict[str, tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.columns["id"])

    def text(self, name: str) -> NDArray[np.str_]:
        return np.array(self.columns[name])

    def numbers(self, name: str) -> Numbers:
        """NaN where a row gives nothing."""
        return np.array([float(text) if text else np.nan for text in self.columns[name]])

    @property
    def held_out(self) -> Mask:
        """Odd ids score, even ids fit: fixed once, for everything that is fitted to these rows."""
        return np.array([int("".join(filter(str.isdigit, row_id))) % 2 == 1 for row_id in self.columns["id"]])

    def where(self, mask: Mask) -> "Rows":
        kept = np.flatnonzero(mask)
        return Rows({name: tuple(column[at] for at in kept) for name, column in self.columns.items()})


@cache
def training_runs() -> Rows:
    """Runs with a measured step time or peak of memory, or a stated failure."""
    return _read("training_runs.csv.gz")


@cache
def untouched_runs(which: int = 1) -> Rows:
    """Measured runs that nothing is fitted to, of one of the sets: only for scoring, and never by halves."""
    return _rows(_bytes(UNTOUCHED[which]))


@cache
def nanotron_failures() -> Rows:
    """Layouts that ran out of memory or crashed; the source does not tell which."""
    return _read("nanotron_failures.csv.gz")


def _read(name: str) -> Rows:
    return _rows(gzip.decompress(_bytes(name)))


def _bytes(name: str) -> bytes:
    return (DATA / name).read_bytes()


def _rows(table: bytes) -> Rows:
    rows = list(csv.DictReader(table.decode("utf-8").splitlines()))
    return Rows({column: tuple(row[column] for row in rows) for column in rows[0]})
