"""Tables that sort: by amounts whatever their unit, as text where a column is words; long ones are cut and say so."""

import pytest

from redline.report.document import ReportTable
from redline.report.html.tables import amount, sorted_table


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("870 ns", 870e-9),
        ("1.235 ms", 1.235e-3),
        ("12 s", 12.0),
        ("1,234", 1234.0),
        ("17.5 %", 17.5),
        ("512 B", 512.0),
        ("1.50 MB", 1.5e6),
        ("2.05 GB/s", 2.05e9),
        ("2.05 GB/s ±3.1 %", 2.05e9),
        ("1.361 us 0.60x..8.2x", 1.361e-6),
        ("1.361 us 0.00x..>99x", 1.361e-6),
        ("3.00 TOP/s", 3e12),
        ("2 MiB", 2.0 * (1 << 20)),
        ("0.003", 0.003),
        ("64x64", None),
        ("-", None),
        ("aten::mm", None),
        ("1.2.3", None),
    ],
)
def test_amounts_of_cells(cell: str, expected: float | None) -> None:
    assert amount(cell) == pytest.approx(expected)


def test_columns_of_amounts_have_keys_and_words_have_none() -> None:
    found = sorted_table(
        ReportTable(title="t", head=("name", "time"), rows=(("a", "1.0 ms"), ("b", "-")), notes=(), empty="")
    )
    assert found.keys == {1: [1e-3, None]}


def test_a_column_without_any_amount_is_still_one_of_amounts() -> None:
    found = sorted_table(ReportTable(title="t", head=("busbw",), rows=(("-",), ("-",)), notes=(), empty=""))
    assert found.keys == {0: [None, None]}


def test_long_tables_are_cut_and_say_by_how_much() -> None:
    rows = tuple((str(number), "1 s") for number in range(12))
    found = sorted_table(ReportTable(title="t", head=("n", "time"), rows=rows, notes=("a note",), empty=""), most=10)
    assert len(found.rows) == 10
    assert found.notes == ["2 further rows are left out here; JSON has them all", "a note"]
