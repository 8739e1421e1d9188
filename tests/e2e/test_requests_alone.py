"""A run with the log of an engine and no trace, as users diagnose it."""

import json
from pathlib import Path

import pytest

from redline.cli import main
from redline.errors import InputError
from redline.verbs.diagnose_requests import diagnose_requests
from tests.support.made_engine import MadeEngine


@pytest.fixture
def run(tmp_path: Path) -> Path:
    engine = MadeEngine(seed=11, pauses_ns=(0, 50_000), sequences=2, tokens=256, cache=100_000)
    engine.run(60)
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    return engine.write(tmp_path)


def test_its_requests_are_told_of(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(run)]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("verdict   The slowest requests take ")
    assert "Let more sequences run at once (RL-V01)." in " ".join(told.out.split())
    assert "not seen  No step was captured" in told.out
    assert told.err.splitlines()[-1] == "next: redline explain RL-V01"


def test_in_chinese_and_in_markdown(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(run), "--lang", "zh", "--format", "md", "-q"]) == 0
    assert "让更多序列同时运行" in capsys.readouterr().out


def test_for_programs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(run), "--json", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["serving"]["requests"]) == ("requests", 60)


@pytest.mark.parametrize("options", [["--format", "html", "-o", "x.html"], ["--kernels"], ["--fail-on", "idle>1%"]])
def test_what_only_a_trace_can_tell_is_refused(
    options: list[str], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(run), *options]) == 2
    assert "this run has the log of its engine and no trace" in capsys.readouterr().err


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no log of a serving engine in it"):
        diagnose_requests(tmp_path)
