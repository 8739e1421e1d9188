"""The file of a search: written, read back, and refused where it is none."""

from pathlib import Path

import pytest

from redline.capture.levers import parse_lever
from redline.errors import InputError, UsageError
from redline.tuning.candidates import LeverCandidate
from redline.tuning.tune_result import Ladder, Rung
from redline.tuning.tuned_file import levers_of, write_tuned


def ladder(*levers: str) -> Ladder:
    rungs = tuple(
        Rung(candidate=LeverCandidate(lever=parse_lever(lever)), trial=None, numbers=None, peak_bytes=0)
        for lever in levers
    )
    return Ladder(rungs=rungs, rejected=(), whole=None)


def test_the_levers_are_read_back_beside_others(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    write_tuned(path, 'python "a b".py \\ \u6587', ladder("fused", 'env:A=x"y'))
    assert levers_of([str(path), "workers=2", "fused"]) == ("fused", 'env:A=x"y', "workers=2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("levers", "not levers that were tuned"),
        ("levers = 1", "Expected `array`, got `int`"),
        ("[levers]", "Expected `array`, got `object`"),
        ("levers = " + "[" * 5_000, "it nests too deep"),
        ("levers = " + "7" * 5_000, "Exceeds the limit"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=f"{said}.*give the tuned.toml"):
        levers_of([str(path)])


def test_a_lever_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text('levers = ["faster"]')
    with pytest.raises(UsageError, match="there is no lever 'faster'"):
        levers_of([str(path)])
    with pytest.raises(InputError, match="cannot read"):
        levers_of(["missing.toml"])
