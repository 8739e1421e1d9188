"""A new rule begins with all that it needs, and fails until that is filled in."""

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from redline.findings.pages import parsed
from redline.findings.rule import Rule
from tests.support.command_line import ROOT
from tests.support.finding_pages import faults_of


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
    assert script.main(["RL-X42", "host_disks/slow_disk", "Do this instead", "--root", str(tmp_path)]) == 0
    assert "src/redline/findings/rule.py" in capsys.readouterr().out
    rule = imported(tmp_path / "src/redline/findings/rules/host_disks.py", "host_disks").slow_disk
    assert isinstance(rule, Rule)
    assert rule.code == "RL-X42"
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert len(written) == 3, "a module, a page, a test"
    page = parsed((tmp_path / "docs/findings/RL-X42.md").read_text(), "en")
    assert (page.code, page.title) == ("RL-X42", "Do this instead")
    assert any("not filled in" in fault for fault in faults_of(page, rule))
    test = ast.parse((tmp_path / "tests/unit/findings/rules/test_host_disks.py").read_text())
    tests = [node for node in test.body if isinstance(node, ast.FunctionDef)]
    assert len(tests) == 2
    assert all("pytest.fail(" in ast.unparse(one) for one in tests)


def test_a_second_rule_is_added_to_its_module(script: ModuleType, tmp_path: Path) -> None:
    script.main(["RL-X42", "host_disks/slow_disk", "Do this instead", "--root", str(tmp_path)])
    script.main(["RL-X43", "host_disks/full_disk", "Do that instead", "--root", str(tmp_path)])
    module = imported(tmp_path / "src/redline/findings/rules/host_disks.py", "host_disks")
    assert (module.slow_disk.code, module.full_disk.code) == ("RL-X42", "RL-X43")
    source = (tmp_path / "src/redline/findings/rules/host_disks.py").read_text()
    assert source.count("import RankAnalysis") == 1
    assert (tmp_path / "tests/unit/findings/rules/test_host_disks.py").read_text().count("pytest.fail(") == 4


def test_nothing_is_overwritten(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["RL-X42", "host_disks/slow_disk", "Do this instead", "--root", str(tmp_path)]
    script.main(arguments)
    with pytest.raises(SystemExit):
        script.main(arguments)
    assert "RL-X42.md exists" in capsys.readouterr().err


def test_a_code_has_its_form(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        script.main(["H42", "host_disks/slow_disk", "Do this", "--root", str(tmp_path)])
    assert "'H42' is not a code such as RL-H42" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["slow_disk", "disk/slow", "host/Slow Disk", "host/../slow", "hostile/slow"])
def test_a_place_is_a_module_of_a_limit_and_a_name(
    script: ModuleType, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        script.main(["RL-X42", place, "Do this", "--root", str(tmp_path)])
    assert (
        f"{place!r} is not a place such as host_waits/number_reads; modules begin with input, host"
        in capsys.readouterr().err
    )
