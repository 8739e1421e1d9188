"""Texts speak as docs/style.md asks: wordings of the old dialect do not come back, in either language."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.command_line import ROOT

SOURCES = ROOT / "src" / "redline"
CATALOGUE = SOURCES / "report" / "locale" / "zh_CN" / "LC_MESSAGES" / "redline.po"
PAGES = [
    *(page for folder in ("findings", "levers") for page in sorted((ROOT / "docs" / folder).glob("*.zh-CN.md"))),
    ROOT / "README.zh-CN.md",
]

ENGLISH = (
    "told by",
    "four of five",
    "8 of 10 such",
    "against a roof",
    "work known of",
    "limited by overhead",
    "is what such",
    "than which",
    "does not mind",
    "in flight",
    "waiting for peers",
    "makes the file for",
    "claimed twice",
    "of it is lost",
    "law of matmul",
    "a usual step",
    "measured elsewhere",
)
CHINESE = (
    "未评级",
    "等待同伴",
    "认领",
    "中位的",
    "在途",
    "耗尽",
    "一遍",
    "处理一个提示",
    "十有八次",
    "五分之四",
    "快到原来",
    "最多值一步",
    "做计算的算子",
    "主机",
    "算术",
    "微批次",
    "流水级",
    "摘要",
)
STEP = re.compile(
    r"(?<![同异逐单进一初])步(?![骤长])|(?<!进)一步"
)  # step stays English; not in 同步, 异步, 单步, 进一步


@cache
def _all_texts() -> tuple[tuple[str, str], ...]:
    """Where each text is, and the text in small letters."""
    modules = [
        (f"{path.relative_to(ROOT)}:{line}", text.lower())
        for path in sorted(SOURCES.rglob("*.py"))
        for line, text in _texts(path)
    ]
    pages = [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8").lower()) for path in SOURCES.rglob("*.j2")]
    return (*modules, *pages)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module that is not a docstring; parts of an f-string one by one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.lineno, node.value


@pytest.mark.parametrize("phrase", ENGLISH)
def test_no_text_of_the_code_is_in_the_old_dialect(phrase: str) -> None:
    assert [place for place, text in _all_texts() if phrase in text] == []


@pytest.mark.parametrize("phrase", CHINESE)
def test_chinese_has_one_vocabulary(phrase: str) -> None:
    found = [path.name for path in (CATALOGUE, *PAGES) if phrase in path.read_text(encoding="utf-8")]
    assert found == []


def test_a_step_is_called_a_step_in_chinese() -> None:
    for path in (CATALOGUE, *PAGES):
        text = re.sub(r"\n", "", path.read_text(encoding="utf-8"))
        assert [text[max(found.start() - 8, 0) : found.end() + 8] for found in STEP.finditer(text)] == [], path
