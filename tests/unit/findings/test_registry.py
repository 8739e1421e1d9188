"""Rules are found where they lie, and claim time in the order that is stated."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from redline.findings.registry import RULES, RULES_OF_PLANS
from redline.findings.rule import ClaimOrder
from redline.findings.rule_modules import LIMITS, codes_of, modules_of
from tests.support.command_line import ROOT

PACKAGE = ROOT / "src" / "redline"
MODULES = [path for path in (PACKAGE / "findings" / "rules").glob("*.py") if path.name != "__init__.py"]


def test_every_module_of_rules_is_named_after_a_limit() -> None:
    assert sorted(name for limit in LIMITS for name in modules_of(limit)) == sorted(path.stem for path in MODULES)


def test_every_declaration_is_found() -> None:
    declared = sum(path.read_text().count("\n@rule(") for path in MODULES)
    assert declared == len(RULES) == len({rule.code for rule in RULES})
    assert sorted(code for folder in LIMITS for code in codes_of(folder)) == sorted(rule.code for rule in RULES)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_every_rule_has_its_test(module: Path) -> None:
    """One that fires it, and one that must not."""
    test = Path(__file__).parent / "rules" / f"test_{module.name}"
    assert test.is_file(), f"write {test.relative_to(ROOT)}"
    tested = test.read_text()
    for code in re.findall(r'^@rule\(\s*"(RL-\w+)"', module.read_text(), re.MULTILINE):
        assert code in tested, f"test {code} in {test.relative_to(ROOT)}"


def test_rules_claim_in_the_stated_order() -> None:
    assert [rule.claims for rule in RULES] == sorted(rule.claims for rule in RULES)
    assert {rule.claims for rule in RULES} == set(ClaimOrder)  # no place that nobody has
    place = {rule.code: number for number, rule in enumerate(RULES)}
    chosen = ["RL-D01", "RL-H19", "RL-ID01", "RL-H01", "RL-H07", "RL-C07", "RL-B01", "RL-P01", "RL-N13", "RL-N01"]
    assert sorted(chosen, key=place.__getitem__) == chosen


def test_rules_about_what_a_program_did_say_nothing_of_a_plan() -> None:
    of_plans = {rule.code for rule in RULES_OF_PLANS}
    assert {"RL-N01", "RL-P01", "RL-C06", "RL-B01"} <= of_plans
    assert of_plans.isdisjoint({"RL-D01", "RL-H01", "RL-H19", "RL-M01", "RL-N11", "RL-R06", "RL-S01"})


def test_they_are_found_in_an_archive_too(tmp_path: Path) -> None:
    archive = tmp_path / "redline.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in PACKAGE.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                file.write(path, path.relative_to(PACKAGE.parent))
    program = f"import sys; sys.path.insert(0, {str(archive)!r})\nfrom redline.findings import registry\n"
    program += "from redline.findings.rule_modules import codes_of\n"
    program += "print(registry.__file__, len(codes_of('host')), *(rule.code for rule in registry.RULES))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert shown[0].startswith(str(archive))
    assert int(shown[1]) == len(codes_of("host"))
    assert shown[2:] == [rule.code for rule in RULES]
