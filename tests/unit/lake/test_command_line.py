"""`redline lake` on the command line: what it is told, what it says, and what nonsense is told."""

import re
import sys
from pathlib import Path

import pytest

from redline.cli import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "lake: say first which kind: redline lake add, redline lake ask, redline lake prune"),
        (["prun"], "lake: there is no kind 'prun'; did you mean: redline lake prune"),
        (["xyz"], "lake: there is no kind 'xyz'; there are: add, ask, prune"),
        (["ask", "teams"], "lake ask: the following arguments are required: --lake"),
        (["ask", "teams", "--lake", "x", "--price", "much"], "argument --price: 'much' is not a price"),
        (["ask", "teams", "--lake", "x", "--price", "-1"], "argument --price: '-1' is not a price above 0"),
        (["ask", "teams", "--lake", "x", "-o", "x.pdf"], "x.pdf: lake ask writes .csv, .html, .json or .txt"),
        (["add", "x", "--lake", "x", "--hours", "few"], "argument --hours: 'few' is not a number of hours"),
        (["add", "x", "--lake", "x", "--hours", "0"], "lake add: --hours 0 is not a number of hours above 0"),
        (["add", "x", "--lake", "x", "--job", ""], "lake add: --job is empty; is a variable of the shell unset?"),
    ],
)
def test_messages(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lake", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [["add", "x"], ["ask", "teams"], ["prune", "--days", "3"]])
def test_without_the_extra_one_line_says_what_to_install(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("duckdb", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["lake", *words, "--lake", "x"]) == 2
    assert capsys.readouterr().err == "redline: lake needs pyarrow and duckdb: pip install 'redline-perf[lake]'\n"


def test_from_digests_to_answers(
    job_digests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    assert main(["lake", "add", str(job_digests), "--lake", "lake", "--team", "vision", "--hours", "2"]) == 0
    told = capsys.readouterr()
    assert told.out == "added to lake: 4 digests of the job run-7, 1 window\n"
    assert told.err.endswith("next: redline lake ask accounts --lake lake\n")
    assert main(["lake", "ask", "teams", "--lake", "lake"]) == 0
    assert re.search(r"^vision +1 +8 +[0-9.]+ +[0-9.]+ %", capsys.readouterr().out, re.MULTILINE)
    assert main(["lake", "ask", "--lake", "lake", "--sql", "SELECT sum(gpu_hours) AS h FROM digests", "--json"]) == 0
    assert '"rows": [\n    [\n      8.0\n    ]\n  ]' in capsys.readouterr().out
    for name in ("a.csv", "a.html", "a.json", "a.txt"):
        assert main(["lake", "ask", "accounts", "--lake", "lake", "-o", name, "--lang", "zh"]) == 0
        assert (tmp_path / name).stat().st_size > 100
    assert (tmp_path / "a.csv").read_text().startswith("account,gpu_hours,share,lost\n")
    assert "各账目的 GPU 小时" in (tmp_path / "a.txt").read_text()
    assert main(["lake", "prune", "--lake", "lake", "--days", "100000"]) == 0
    assert "removed from lake: 0 digests of 0 days before " in capsys.readouterr().out
