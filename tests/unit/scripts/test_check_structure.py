"""The check of the code's shape notices what it is there for. `.ci/run` holds the package itself against it."""

from pathlib import Path

from scripts.check_structure import site_complaints, structure_of

ROWS = '"""Rows."""\n\n\ndef total(one: int) -> int:\n    found = one\n    return found\n'


def test_a_class_name_twice_and_a_silent_module_are_complained_about(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text('"""One."""\nclass Layout: ...\nclass _Row: ...\n')
    (tmp_path / "second.py").write_text("class Layout: ...\nclass _Row: ...\n")
    assert structure_of(tmp_path).complaints == (
        "class Layout is defined in first.py and in second.py",
        "second.py has no first line that says what it is for",
    )


def test_an_error_below_the_command_line_names_no_flag(tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    for folder in (tmp_path, tmp_path / "cli"):
        text = '"""Files."""\nHINT = "use --force"\nOutputError(f"{HINT}, or torchrun --nproc-per-node 2")\n'
        (folder / "files.py").write_text(text)
    assert structure_of(tmp_path).complaints == (
        "files.py: an error names --force; name the parameter, as redline.errors says",
    )


def test_counts_are_of_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for folder in (tmp_path, tmp_path / "inner"):
        (folder / "rows.py").write_text(ROWS)
    assert structure_of(tmp_path).counts == {
        "public class names defined twice": 0,
        "modules without a first line": 0,
        "file names that repeat": 1,
        "vague local names": 4,
        "files": 2,
        "lines": 12,
        "lines of the longest function": 3,
    }


def test_pages_that_the_site_does_not_lead_to_are_complained_about(tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    (tmp_path / "index.md").write_text("[there](reference/there.md#part) and [here](here.md)\n")
    for name in ("here.md", "here.zh-CN.md", "gone.zh-CN.md", "reference/there.md", "reference/lost.md"):
        (tmp_path / name).write_text("# Page\n")
    nav = [{"Home": "index.md"}, {"Pages": [{"Here": "here.md"}, {"More": ["reference/there.md", "reference/no.md"]}]}]
    assert site_complaints(tmp_path, nav) == [
        "docs/reference/lost.md is not in the navigation of mkdocs.yml",
        "the navigation names docs/reference/no.md, which does not exist",
        "docs/reference/lost.md is not linked from docs/index.md",
        "docs/gone.zh-CN.md translates gone.md, which does not exist",
    ]
