"""Begin a new rule: `python scripts/new_rule.py RL-H42 host_waits/cause_in_words "Do this instead"`.

Writes its function, its page and its test; nothing else has to be touched. What is to be filled in stands in comments;
the tests of the page and of the rule fail until it is. Nothing that exists is overwritten: modules are added to.
"""

import argparse
import ast
import re
import sys
from pathlib import Path

from redline.findings.pages import SECTIONS
from redline.findings.rule_modules import LIMITS

ROOT = Path(__file__).parents[1]
CODE = re.compile(r"RL-[A-Z]{1,2}[0-9]{2}")
PLACE = re.compile(rf"((?:{'|'.join(LIMITS)})(?:_[a-z0-9]+)*)/([a-z][a-z0-9_]*)")
WHERE = f"such as host_waits/number_reads; modules begin with {', '.join(LIMITS)}"

IMPORTS = {
    "ClaimOrder": "redline.findings.rule",
    "Grade": "redline.findings.evidence",
    "RuleMatch": "redline.findings.rule",
    "rule": "redline.findings.rule",
    "says": "redline.findings.rule",
    "Account": "redline.ledger.accounts",
    "RankAnalysis": "redline.ledger.rank.rank_analysis",
    "Numerics": "redline.numerics",
}
FUNCTION = '''

@rule("{code}", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.HYPOTHESIS, least_share=0.03)
@says("What was found, with its figures: {{claimed_ns}} of each step of {{step_ns}}.")
def {name}(analysis: RankAnalysis) -> RuleMatch | None:
    """What causes it, in one line. Returns the time that would be gone with the cause; None where it is not there."""
    claim = analysis.idle_in(Account.HOST)
    return RuleMatch(claim, claimed_ns=claim.length_ns) if len(claim) else None
'''
TEST = """

def test_{name}_claims_its_time() -> None:
    pytest.fail("make a trace with the cause, and compare what {code} claims with what you put in")


def test_{name}_is_silent_without_its_cause() -> None:
    pytest.fail("make a trace that looks alike, but has another cause: {code} must say nothing")
"""
ADVICE = {
    "symptom": "What the trace shows, with every threshold of the rule.",
    "cause": "Why it happens. The first sentence, up to a colon, stands in the verdict: it must be understood alone.",
    "smallest_fix": "What to change in one place, and the code for it. The first sentence stands on the first screen.",
    "thorough_fix": "What to do where the smallest fix is not enough.",
    "bound": "The time that is claimed, and why no fix can gain more, as a formula.",
    "numerics": "Begins with the numerics class of the rule, then why.",
    "ignore": "When the finding is right, but not worth acting on.",
    "fooled": "What looks the same and is not, and what the rule cannot see.",
    "sources": "Figures with their conditions, and public addresses in angle brackets, one per line with a dash.",
}


def page(code: str, title: str) -> str:
    """With all headings, and under each what belongs there as a comment: a page with such is not accepted."""
    parts = [f"## {english}\n\n<!-- {ADVICE[name]} -->\n" for name, (english, _chinese) in SECTIONS.items()]
    return "\n".join([f"# {code}: {title}\n", *parts])


def module(before: str, code: str, name: str) -> str:
    tree = ast.parse(before or '"""Its one job, in one line."""\n')
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    known = {alias.name for node in imports for alias in node.names}
    lines = (before or ast.unparse(tree)).splitlines()
    here = imports[0].lineno - 1 if imports else 1
    missing = [f"from {source} import {needed}" for needed, source in IMPORTS.items() if needed not in known]
    added = missing if imports else ["", *missing]
    return "\n".join([*lines[:here], *added, *lines[here:]]) + "\n" + FUNCTION.format(code=code, name=name)


def test_module(before: str, code: str, name: str) -> str:
    text = before or f'"""{code}: fires on its trace, claims what it should, and leaves its counter-trace alone."""\n\n'
    if "\nimport pytest\n" not in text:
        head, _, rest = text.partition('"""\n\n')
        text = f'{head}"""\n\nimport pytest\n{rest}'
    return text + TEST.format(code=code, name=name)


def files(code: str, place: str, title: str, root: Path) -> dict[str, str]:
    """By path, from the root of a checkout."""
    parts = PLACE.fullmatch(place)
    assert parts is not None
    source, test = (f"src/redline/findings/rules/{parts[1]}.py", f"tests/unit/findings/rules/test_{parts[1]}.py")
    old, old_test = ((root / path).read_text("utf-8") if (root / path).exists() else "" for path in (source, test))
    return {
        source: module(old, code, parts[2]),
        f"docs/findings/{code}.md": page(code, title),
        test: test_module(old_test, code, parts[2]),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("code", help="of the finding: RL-, letters of its subject, two digits")
    parser.add_argument("place", help=f"module and cause, {WHERE}")
    parser.add_argument("title", help="what to do, in the imperative")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the checkout (default: this one)")
    options = parser.parse_args(arguments)
    if not CODE.fullmatch(options.code):
        parser.error(f"{options.code!r} is not a code such as RL-H42")
    if not PLACE.fullmatch(options.place):
        parser.error(f"{options.place!r} is not a place {WHERE}")
    there = options.root / "docs" / "findings" / f"{options.code}.md"
    if there.exists():
        parser.error(f"{there} exists")
    for place, text in files(options.code, options.place, options.title, options.root).items():
        path = options.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    print("choose its place in the order of claims: ClaimOrder in src/redline/findings/rule.py")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
