"""Write the tables of docs/reference/findings.md from the rules and their pages: `python scripts/list_findings.py`.

Run it before a release: a new rule may do without its line there until then.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from redline.findings.pages import codes, page_of
from redline.findings.registry import RULES
from redline.findings.rule import Rule
from redline.findings.rule_modules import FOLDERS, codes_in
from redline.report.explain.text import HEADINGS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "findings.md"
HEAD = ("| code | title | numerics | grade | in Chinese |", "|---|---|---|---|---|")


def row(rule: Rule) -> str:
    code = rule.code
    chinese = f"[{page_of(code, 'zh').title}](../findings/{code}.zh-CN.md)" if code in codes("zh") else ""
    title = page_of(code).title
    return f"| [{code}](../findings/{code}.md) | {title} | {rule.numerics} | {rule.grade} | {chinese} |"


def tables() -> Iterator[str]:
    known = {rule.code: rule for rule in RULES}
    for folder in FOLDERS:
        rows = [row(known[code]) for code in codes_in(folder)]
        yield "\n".join([f"## {HEADINGS[folder]}", "", *HEAD, *rows, ""])


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    beginning = text[: text.index("\n## ") + 1]
    PAGE.write_text("\n".join([beginning.rstrip("\n") + "\n", *tables()]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
