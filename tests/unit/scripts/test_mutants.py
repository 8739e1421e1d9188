"""The list of mistakes that tests must notice is of the code as it is: `python -m scripts.mutants` makes them."""

from collections import Counter

import pytest

from scripts.mutants import ROOT, Mutant, mutants, speaking_for

LEAST = 40


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_of_the_code(mutant: Mutant) -> None:
    text = (ROOT / "src" / mutant.path).read_text(encoding="utf-8")
    assert text.count(mutant.before) == 1
    assert mutant.before != mutant.after
    compile(text.replace(mutant.before, mutant.after), mutant.file, "exec")


def test_every_area_has_mutants_and_tests() -> None:
    areas = Counter(mutant.area for mutant in mutants())
    assert areas.total() >= LEAST
    assert set(areas) == {"calibration", "capture", "findings", "job", "ledger", "report"}
    assert all(speaking_for(area) for area in areas)
