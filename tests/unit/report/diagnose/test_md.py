"""The Markdown of `diagnose`: the same content as the text, in tables that every renderer understands."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.diagnosis_document import MOST_COMMENTED, MOST_LETTERS
from redline.report.diagnose.screen import screen_of
from redline.report.diagnose.tables import TABLES
from redline.report.markdown import escaped
from redline.verbs.diagnose import diagnose
from tests.support.events import collective, document, kernel, launch, op, region
from tests.support.made_findings import findings
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

EVIL = "\x1b[2J|`<b>*_[a](b)\u202e"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> DiagnoseResult:
    folder = tmp_path_factory.mktemp("job")
    write_job(JobSpec(ranks=2, steps=2, layers=2, stragglers=(Straggler(rank=1, extra_us=2000),)), folder)
    return diagnose([folder])


def test_it_says_all_that_the_screen_says(job: DiagnoseResult) -> None:
    text = job.rendered("md", verbose=True)
    screen = screen_of(job)
    said = [screen.headline, *(text for _, text in screen.facts), *(text for _, text in screen.losses), *screen.unseen]
    for sentence in said:
        assert escaped(sentence) in text
    for part in screen.waterfall.bars:
        assert f"| {part.name} | {part.amount} | {part.share} |" in text
    assert f"**{screen.waterfall.total}**" in text


def test_every_table_has_the_rows_of_the_text(job: DiagnoseResult) -> None:
    text = job.rendered("md", tables=list(TABLES))
    plain = job.rendered("text", tables=list(TABLES))
    for name, table in TABLES.items():
        shown = table(job.diagnosis, verbose=False)
        assert f"### {name.capitalize()}" in text
        assert f"| {' | '.join(shown.head)} |" in text
        for note in shown.notes:
            assert f"- {escaped(note)}" in text
            assert note in " ".join(plain.split())


def test_rows_of_a_table_have_the_cells_of_its_head(job: DiagnoseResult) -> None:
    text = job.rendered("md", tables=list(TABLES))
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("|"):
            cells = {len(re.split(r"(?<!\\)\|", line)) for line in lines}
            assert len(cells) == 1, block


def test_findings_have_their_cause_and_fix_folded_below_them(job: DiagnoseResult) -> None:
    text = replace(job, findings=findings(7)).rendered("md")
    assert "1. **RL-H01 Replay the launches of a step as a CUDA graph: at most 40.0 % of the step" in text
    assert r"The device waits 4.000 ms for a\|b. Second. Third." in text
    assert text.count("<details>") == text.count("   </details>") == MOST_COMMENTED
    assert "   **Cause.** The host cannot launch" in text
    assert "   ```python\n   model = torch.compile(" in text
    assert "And 2 more: RL-H01, RL-H01." in text
    assert "- Well done: 99.0 % busy." in text
    assert "- RL-H01 Look first." in text
    assert replace(job, findings=findings(7)).rendered("md", verbose=True).count("<details>") == 7


def test_it_fits_into_a_comment(job: DiagnoseResult) -> None:
    text = replace(job, findings=findings(120)).rendered("md", tables=list(TABLES), verbose=True)
    assert len(text) <= MOST_LETTERS
    assert text.count("RL-H01 Replay") == 120
    assert 20 < text.count("<details>") < 120


def test_nothing_in_a_trace_is_taken_for_markup(tmp_path: Path) -> None:
    events = [
        region(f"region{EVIL}", 0, 900),
        op(f"aten::mm{EVIL}", 100, 50),
        launch(120, correlation=1),
        kernel(f"gemm{EVIL}", 300, 10, correlation=1),
        collective(600, 50, name=f"allreduce{EVIL}"),
    ]
    (tmp_path / "a.json").write_bytes(document(events, deviceProperties=[{"id": 0, "name": f"GPU{EVIL}"}]))
    found = diagnose([tmp_path])
    text = found.rendered("md", tables=list(TABLES))
    assert not set(text) & set("\x1b\u202e")
    assert not re.search(r"(?<!\\)<b>", text)
    assert not re.search(r"(?<!\\)\[a(?<!\\)\]\(", text)


def test_an_empty_trace(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(document([]))
    found = diagnose([tmp_path])
    text = found.rendered("md", tables=list(TABLES))
    assert text.startswith("## 1 rank of 1 on CPU")
    assert "### Kernels\n\n- no compute in the traces" in text
