"""What is wrong with the page of a finding."""

import ast
import re
from collections.abc import Iterator

from redline.findings.pages import Page
from redline.findings.rule import Rule
from redline.ledger.memory.causes import MemoryRule
from redline.serving.causes import ServingRule

AnyRule = Rule | ServingRule | MemoryRule
BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"<(https://[^>\s]+)>")


def blocks(page: Page) -> list[tuple[str, str]]:
    return [(found["kind"], found["code"]) for found in BLOCK.finditer(page.text)]


def faults_of(page: Page, rule: AnyRule) -> Iterator[str]:
    """What is to be mended before people read it."""
    if "<!--" in page.text:
        yield "not filled in: it still holds comments"
    if not page.numerics.startswith(str(rule.numerics)):
        yield f"its numerics do not begin with {rule.numerics}"
    if not ADDRESS.search(page.sources):
        yield "no public address among its sources"
    for kind, code in blocks(page):
        if kind == "python" and not is_python(code):
            yield f"not Python: {code}"
    if page.text != page.text.rstrip() + "\n" or any(line != line.rstrip() for line in page.text.splitlines()):
        yield "blanks at the end"


def is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True
