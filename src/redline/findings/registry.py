"""All rules: every module in a folder of `redline.findings.rules` is one."""

from collections.abc import Iterator
from importlib import import_module

from redline.findings.rule import Rule
from redline.findings.rule_modules import FOLDERS, modules_in


def _discovered() -> Iterator[Rule]:
    for module in (name for folder in FOLDERS for name in modules_in(folder)):
        rule: Rule = import_module(module).RULE
        yield rule


RULES = tuple(sorted(_discovered(), key=lambda rule: (rule.claims, rule.code)))
"""In the order in which they claim time."""
RULES_OF_PLANS = tuple(rule for rule in RULES if rule.applies_to_plans)


def rules_for(*, predicted: bool) -> tuple[Rule, ...]:
    """In the order in which they claim time; for timelines that were measured, or that a plan predicted."""
    return RULES_OF_PLANS if predicted else RULES
