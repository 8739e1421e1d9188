"""A new rule begins with all that it needs, and fails until that is filled in."""

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from redline.findings.pages import parsed
from redline.findings.rule import Rule
from tests.conftest import ROOT
from tests.unit.findings.test_pages import faults_of


def imported(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def script() -> ModuleType:
    return imported(ROOT / "scripts" / "new_rule.py", "new_rule")


def test_a_rule_begins(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["RL-X42", "Do this instead", "--root", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "add x42.RULE to RULES in src/redline/findings/registry.py" in said
    rule = imported(tmp_path / "src/redline/findings/rules/x42.py", "x42").RULE
    assert isinstance(rule, Rule)
    assert rule.code == "RL-X42"
    for language, ending in (("en", ".md"), ("zh", ".zh-CN.md")):
        page = parsed((tmp_path / f"docs/findings/RL-X42{ending}").read_text(), language)
        assert (page.code, page.title) == ("RL-X42", "Do this instead")
        assert any("not filled in" in fault for fault in faults_of(page, rule))
    test = ast.parse((tmp_path / "tests/unit/findings/test_x42.py").read_text())
    tests = [node for node in test.body if isinstance(node, ast.FunctionDef)]
    assert len(tests) == 2
    assert all("pytest.fail(" in ast.unparse(one) for one in tests)


def test_nothing_is_overwritten(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["RL-X42", "Do this instead", "--root", str(tmp_path)]
    script.main(arguments)
    with pytest.raises(SystemExit):
        script.main(arguments)
    assert "x42.py exists" in capsys.readouterr().err


def test_a_code_has_its_form(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        script.main(["H42", "Do this", "--root", str(tmp_path)])
    assert "'H42' is not a code such as RL-H42" in capsys.readouterr().err
