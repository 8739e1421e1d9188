"""Quantities read the same everywhere, and what is parsed is exact."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redline.units import (
    format_buffer,
    format_bytes,
    format_count,
    format_memory,
    format_ns,
    format_rate,
    parse_bytes,
    parse_count,
)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (1_500_000, "1.50 MB"),
        (15_000_000, "15.0 MB"),
        (150_000_000, "150 MB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (9_996, "10.0 kB"),
        (2**40, "1.10 TB"),
        (5_000 * 10**18, "5,000 EB"),
        (-1_500_000, "-1.50 MB"),
    ],
)
def test_bytes_are_decimal_with_three_digits(size_bytes: int, text: str) -> None:
    assert format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0 ns"),
        (870, "870 ns"),
        (1_000, "1.000 us"),
        (1_234_567, "1.235 ms"),
        (12_345_678, "12.35 ms"),
        (123_456_789, "123.5 ms"),
        (999_950_000, "1.000 s"),
        (61_000_000_000, "61.00 s"),
        (86_400_000_000_000, "86,400 s"),
        (-2_500, "-2.500 us"),
    ],
)
def test_durations_have_four_digits(duration_ns: int, text: str) -> None:
    assert format_ns(duration_ns) == text


def test_counts_have_thousands_separators() -> None:
    assert format_count(1_234_567) == "1,234,567"


@pytest.mark.parametrize(
    ("amount_per_s", "unit", "text"),
    [
        (312e12, "FLOP", "312 TFLOP/s"),
        (1.556e12, "B", "1.56 TB/s"),
        (0.5, "step", "0.500 step/s"),
        (0, "B", "0.00 B/s"),
    ],
)
def test_rates(amount_per_s: float, unit: str, text: str) -> None:
    assert format_rate(amount_per_s, unit) == text


@pytest.mark.parametrize("amount_per_s", [float("nan"), float("inf")])
def test_a_rate_that_is_not_a_number_is_declined(amount_per_s: float) -> None:
    with pytest.raises(ValueError, match=r"a rate of (nan|inf) B/s is not a number that can be shown"):
        format_rate(amount_per_s, "B")


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("200MB", 200_000_000),
        ("200mb", 200_000_000),
        ("200M", 200_000_000),
        (" 1 GiB ", 2**30),
        ("1.5KiB", 1536),
        ("0.001kB", 1),
        ("7 B", 7),
        ("3EiB", 3 * 2**60),
    ],
)
def test_sizes_are_parsed_exactly(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a size; write a number and a unit, such as 200MB or 1.5GiB"),
        ("-1MB", "'-1MB' is not a size"),
        ("1e9", "'1e9' is not a size"),
        ("9" * 5000, "is not a size"),
        ("200 MBit", "'200 MBit' has an unknown unit 'MBit'; use B, kB, MB, GB, TB, or KiB, MiB, GiB, TiB"),
        ("1 iB", "'1 iB' has an unknown unit 'iB'"),
        ("1.5B", "'1.5B' is not a whole number of bytes"),
    ],
)
def test_sizes_that_make_no_sense_are_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^") as caught:
        parse_bytes(text)
    assert message in str(caught.value)


@settings(deadline=None)
@given(st.integers(0, 10**18))
def test_formatted_sizes_parse_back_within_their_digits(size_bytes: int) -> None:
    parsed = parse_bytes(format_bytes(size_bytes).replace(",", ""))
    assert abs(parsed - size_bytes) * 200 <= size_bytes


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (4, "4 B"),
        (1 << 10, "1 KiB"),
        (1536, "1.54 kB"),
        (3 << 20, "3 MiB"),
        (1 << 40, "1 TiB"),
        (9408 << 10, "9.63 MB"),
        (10**6, "1.00 MB"),
    ],
)
def test_buffers_are_shown_in_powers_of_two_where_they_are_such(size_bytes: int, text: str) -> None:
    assert format_buffer(size_bytes) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("16384", 16_384),
        ("16,384", 16_384),
        ("15T", 15 * 10**12),
        ("15t", 15 * 10**12),
        (" 1.5 B ", 1_500_000_000),
        ("2.5M", 2_500_000),
        ("4k", 4_000),
        ("1e12", 10**12),
        ("1.5e12", 1_500_000_000_000),
        ("1E+3K", 1_000_000),
        ("1.000", 1),
        ("0.123456789012T", 123_456_789_012),
    ],
)
def test_counts_are_parsed_exactly(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a count; write a number such as 16384, 1e12 or 1.5B, with K, M, B or T after it"),
        ("fifteen", "'fifteen' is not a count"),
        ("-3", "'-3' is not a count"),
        ("15TB", "'15TB' is not a count"),
        ("15G", "'15G' is not a count"),
        ("1,5T", "'1,5T' is not a count"),  # a decimal comma, which would be 15T if commas were dropped
        ("1e999999999", "'1e999999999' is not a count"),
        ("9" * 5000, "is not a count"),
        ("nan", "'nan' is not a count"),
        ("1.5", "'1.5' is not a whole number"),
        ("1.23456K", "'1.23456K' is not a whole number"),
    ],
)
def test_counts_that_make_no_sense_are_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^") as caught:
        parse_count(text)
    assert message in str(caught.value)


@given(st.integers(0, 10**18 - 1))
def test_formatted_counts_parse_back(count: int) -> None:
    assert parse_count(format_count(count)) == count
    assert parse_count(str(count)) == count


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.000 KiB"),
        (117_440_512, "112.0 MiB"),
        (1_050_681_344, "0.979 GiB"),
        (4_202_692_608, "3.914 GiB"),
        (37_073_453_056, "34.53 GiB"),
        (-4_202_692_608, "-3.914 GiB"),
    ],
)
def test_memory_is_shown_as_torch_shows_it(size_bytes: int, text: str) -> None:
    assert format_memory(size_bytes) == text
