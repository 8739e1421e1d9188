"""All rules: what the modules of `redline.findings.rules` declare."""

from importlib import import_module

from redline.findings import rules
from redline.findings.rule import Rule
from redline.findings.rule_modules import LIMITS, modules_of

_MODULES = [import_module(f"{rules.__name__}.{name}") for limit in LIMITS for name in modules_of(limit)]
_DECLARED = {rule.code: rule for module in _MODULES for rule in vars(module).values() if isinstance(rule, Rule)}
RULES = tuple(sorted(_DECLARED.values(), key=lambda rule: (rule.claims, rule.code)))
"""In the order in which they claim time."""
RULES_OF_PLANS = tuple(rule for rule in RULES if rule.applies_to_plans)


def rules_for(*, predicted: bool) -> tuple[Rule, ...]:
    """In the order in which they claim time; for timelines that were measured, or that a plan predicted."""
    return RULES_OF_PLANS if predicted else RULES
