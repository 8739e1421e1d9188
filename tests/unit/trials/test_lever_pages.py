"""Every lever has its page in both languages: whole, with findings, moments and messages of the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from redline.capture import levers
from redline.capture.lever_kinds import KINDS
from redline.findings.registry import RULES
from redline.report.language import LANGUAGES
from redline.trials import lever_pages
from redline.trials.lever_pages import SECTIONS, LeverPage, folder, kind_meant, lever_page_of, short_name

CODES = {rule.code for rule in RULES}
CODE = re.compile(r"RL-[A-Z]+[0-9]+")
BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"<(https://[^>\s]+)>|\]\((\.\./reference/[^)]+)\)")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
QUOTED = re.compile(r"`([^`]+)`")  # a message, if it has three words or more
SPELLED_OUT = 0.8  # of the figures of a part: the other language may write small ones as words
BETWEEN_STEPS = {"en": "can be switched between steps", "zh": "可以在 step 之间切换"}
FROM_THE_BEGINNING = {"en": "from its beginning or never", "zh": "要么从一开始就有它，要么始终没有"}
ON_CPU = {  # they say why not
    "pin-memory",
    "matmul-precision",
    "cudnn-benchmark",
    "expandable-segments",
    "cuda-graphs",
    "capturable",
    "non-blocking",
    "offload",
}

every_page = pytest.mark.parametrize(
    ("name", "language"), [(name, language) for name in KINDS for language in LANGUAGES]
)


def blocks(page: LeverPage) -> list[tuple[str, str]]:
    return [(match["kind"], match["code"]) for match in BLOCK.finditer(page.text)]


def texts_of_code() -> Iterator[str]:
    """Every constant text of the levers; parts of an f-string one by one."""
    launch = Path(str(levers.__file__)).parent
    for path in (*launch.glob("lever*.py"), *(launch / "worker" / "levers").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value.strip()


TEXTS = frozenset(texts_of_code())


def test_every_file_is_a_page_of_a_lever() -> None:
    endings = (".md", ".zh-CN.md")
    assert {path.name for path in folder().iterdir()} == {f"{short_name(k)}{end}" for k in KINDS for end in endings}


@every_page
def test_a_page_is_whole_and_says_what_the_code_does(name: str, language: str) -> None:
    page = lever_page_of(name, language)
    check_findings(page, name)
    check_moment_and_variables(page, name, language)
    check_messages(page, name)
    assert page.name == name
    assert all(getattr(page, part) for part in SECTIONS)
    assert page.numerics.startswith(str(KINDS[name].numerics))
    assert ADDRESS.search(page.sources)
    assert page.text == page.text.rstrip() + "\n"
    assert [line for line in page.text.splitlines() if line != line.rstrip()] == []
    for kind, code in blocks(page):
        assert kind in ("", "python")
        if kind == "python":
            ast.parse(code)
    assert blocks(page), "no lines to paste"


def check_findings(page: LeverPage, name: str) -> None:
    listed = [line for line in page.findings.splitlines() if line.startswith("- [")]
    assert [code for line in listed for code in CODE.findall(line)[:1]] == list(KINDS[name].findings)
    assert set(CODE.findall(page.text)) <= CODES
    assert not listed or listed == page.findings.splitlines()


def check_moment_and_variables(page: LeverPage, name: str, language: str) -> None:
    kind = KINDS[name]
    assert (BETWEEN_STEPS[language] in page.moment) == kind.switchable
    assert (FROM_THE_BEGINNING[language] in page.moment) != kind.switchable
    if name != "env:NAME":
        assert all(f"{variable}=" in page.keep for variable, _value in kind.environment)


def check_messages(page: LeverPage, name: str) -> None:
    quoted = [text for text in QUOTED.findall(f"{page.proof}\n{page.limits}") if text.count(" ") > 1]
    unknown = [q for q in quoted if not any(q in text or (" " in text and text in q) for text in TEXTS)]
    assert unknown == []
    assert quoted or name not in ON_CPU


@pytest.mark.parametrize("name", KINDS)
def test_a_page_says_the_same_in_both_languages(name: str) -> None:
    english, chinese = lever_page_of(name, "en"), lever_page_of(name, "zh")
    assert blocks(english) == blocks(chinese)
    assert ADDRESS.findall(english.text) == ADDRESS.findall(chinese.text)
    assert english.title != chinese.title
    for part in SECTIONS:
        stated, told = (set(NUMBER.findall(getattr(page, part))) for page in (english, chinese))
        assert len(stated & told) >= SPELLED_OUT * len(stated), (part, stated - told)


def test_titles_fit_on_a_line_of_the_list() -> None:
    titles = [lever_page_of(name).title for name in KINDS]
    assert [title for title in titles if len(title) > 56 or title.endswith(".")] == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("fused", "fused"),
        ("COMPILE=root", "compile"),
        ("env:NAME", "env:NAME"),
        ("env:OMP_PROC_BIND=close", "env:NAME"),
        ("env", "env:NAME"),
        ("fuse", None),
        ("RL-H07", None),
        ("", None),
    ],
)
def test_a_lever_as_people_type_it(text: str, name: str | None) -> None:
    assert kind_meant(text) == name


def test_a_page_without_a_translation_is_shown_in_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = lever_page_of("fused").text
    (tmp_path / "fused.md").write_text(text)
    monkeypatch.setattr(lever_pages, "folder", lambda: tmp_path)
    assert lever_page_of("fused", "zh").text == text


def test_a_page_without_a_part_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = lever_page_of("fused").text
    (tmp_path / "fused.md").write_text(text.replace("## Risk\n", ""))
    monkeypatch.setattr(lever_pages, "folder", lambda: tmp_path)
    with pytest.raises(ValueError, match="a page is '# lever: Title' and the parts What it changes, When it is"):
        lever_page_of("fused")
