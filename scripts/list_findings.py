"""Write the tables of docs/reference/findings.md in both languages from the rules: `python scripts/list_findings.py`.

Run it before a release: a new rule may do without its line there until then.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from redline.findings.pages import codes, page_of
from redline.findings.registry import RULES
from redline.findings.rule import Rule
from redline.findings.rule_modules import LIMITS, codes_of
from redline.ledger.memory.causes import RULES as MEMORY_RULES
from redline.ledger.memory.causes import MemoryRule
from redline.report.explain import BYTES, HEADINGS, REQUESTS
from redline.report.language import LANGUAGES, _, speaking, spoken
from redline.serving.causes import RULES as SERVING_RULES
from redline.serving.causes import ServingRule

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PAGES = {"en": REFERENCE / "findings.md", "zh": REFERENCE / "findings.zh-CN.md"}
HEADS = {"en": "| code | title | numerics | grade |", "zh": "| 代码 | 标题 | 数值影响 | 依据 |"}
REQUEST_HEADS = {"en": "| code | title | numerics |", "zh": "| 代码 | 标题 | 数值影响 |"}


def row(rule: Rule) -> str:
    return f"{request_row(rule)} {_(rule.grade)} |"


def request_row(rule: Rule | ServingRule | MemoryRule) -> str:
    """In the language that is spoken now; a page that is not translated keeps its English title."""
    code, is_translated = rule.code, spoken() == "zh" and rule.code in codes("zh")
    page = f"../findings/{code}.zh-CN.md" if is_translated else f"../findings/{code}.md"
    return f"| [{code}]({page}) | {page_of(code, spoken()).title} | {_(rule.numerics)} |"


def rows(language: str) -> set[str]:
    with speaking(language):
        return {*map(row, RULES), *map(request_row, SERVING_RULES), *map(request_row, MEMORY_RULES)}


def tables() -> Iterator[str]:
    known = {rule.code: rule for rule in RULES}
    for limit in LIMITS:
        lines = [row(known[code]) for code in codes_of(limit)]
        yield "\n".join([f"## {_(HEADINGS[limit])}", "", HEADS[spoken()], "|---|---|---|---|", *lines, ""])
    for heading, rules in ((REQUESTS, tuple(SERVING_RULES)), (BYTES, tuple(MEMORY_RULES))):
        lines = [request_row(rule) for rule in rules]
        yield "\n".join([f"## {_(heading)}", "", REQUEST_HEADS[spoken()], "|---|---|---|", *lines, ""])


def main() -> int:
    for language in LANGUAGES:
        with speaking(language):
            page = PAGES[language]
            text = page.read_text(encoding="utf-8")
            beginning = text[: text.index("\n## ") + 1]
            page.write_text("\n".join([beginning.rstrip("\n") + "\n", *tables()]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
