"""Begin a new rule: `python scripts/new_rule.py RL-H42 host/cause_in_words "Do this instead"`.

Writes its module, its page and its test; nothing else has to be touched. What is to be filled in stands in comments;
the tests of the page and of the rule fail until it is. Nothing that exists is overwritten.
"""

import argparse
import re
import sys
from pathlib import Path

from redline.findings.pages import SECTIONS
from redline.findings.rule_modules import FOLDERS

ROOT = Path(__file__).parents[1]
CODE = re.compile(r"RL-[A-Z]{1,2}[0-9]{2}")
PLACE = re.compile(rf"({'|'.join(FOLDERS)})/[a-z][a-z0-9_]*")

MODULE = '''\
"""{code}: what causes it, in one line."""

from collections.abc import Iterator

from redline.ledger.accounts import Account
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.numerics import Numerics
from redline.findings.rule import MatchTotals, Rule, RuleMatch

LEAST_SHARE = 0.03  # of the step: below this the rule is silent


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """The time that would be gone with the cause; None where it is not there."""
    claim = analysis.idle_in(Account.HOST)
    return RuleMatch(claim=claim, figures={{"claimed_ns": float(claim.length_ns)}}) if len(claim) else None


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "What was found, with its figures: {{claimed_ns}} of each step of {{step_ns}}.",
        {{"claimed_ns": totals.per_step("claimed_ns"), "step_ns": totals.step_ns}},
    )


RULE = Rule(
    code="{code}",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.HYPOTHESIS,
    match=match,
    explain=explain,
    least_share=LEAST_SHARE,
)
'''
TEST = '''\
"""{code}: fires on its trace, claims what it should, and leaves its counter-trace alone."""

import pytest


def test_{name}_claims_its_time() -> None:
    pytest.fail("make a trace with the cause, and compare what {code} claims with what you put in")


def test_{name}_is_silent_without_its_cause() -> None:
    pytest.fail("make a trace that looks alike, but has another cause: {code} must say nothing")
'''
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


def files(code: str, place: str, title: str) -> dict[str, str]:
    """By path, from the root of a checkout."""
    folder, cause = place.split("/")
    return {
        f"src/redline/findings/rules/{folder}/{cause}.py": MODULE.format(code=code),
        f"docs/findings/{code}.md": page(code, title),
        f"tests/unit/findings/rules/{folder}/test_{cause}.py": TEST.format(code=code, name=cause),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("code", help="of the finding: RL-, letters of its subject, two digits")
    parser.add_argument("place", help=f"folder and cause, such as host/item_reads; folders: {', '.join(FOLDERS)}")
    parser.add_argument("title", help="what to do, in the imperative")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the checkout (default: this one)")
    options = parser.parse_args(arguments)
    if not CODE.fullmatch(options.code):
        parser.error(f"{options.code!r} is not a code such as RL-H42")
    if not PLACE.fullmatch(options.place):
        parser.error(f"{options.place!r} is not a place such as host/item_reads; folders: {', '.join(FOLDERS)}")
    new = {options.root / path: text for path, text in files(options.code, options.place, options.title).items()}
    there = [path for path in new if path.exists()]
    if there:
        parser.error(f"{there[0]} exists")
    for path, text in new.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    print("choose its place in the order of claims: src/redline/findings/claim_order.py")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
