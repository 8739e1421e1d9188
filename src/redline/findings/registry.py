"""All rules: every module in a folder of `redline.findings.rules` is one."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from redline.findings import rules
from redline.findings.rule import Rule

FOLDERS = ("input", "host", "kernels", "communication", "memory", "serving", "remarks")
"""By what limits the job, in the order in which they are shown."""


def rules_in(folder: str) -> Iterator[Rule]:
    package = import_module(f"{rules.__name__}.{folder}")
    for module in iter_modules(package.__path__, f"{package.__name__}."):
        rule: Rule = import_module(module.name).RULE
        yield rule


RULES = tuple(
    sorted((rule for folder in FOLDERS for rule in rules_in(folder)), key=lambda rule: (rule.claims, rule.code))
)
"""In the order in which they claim time."""
RULES_OF_PLANS = tuple(rule for rule in RULES if rule.applies_to_plans)


def rules_for(*, predicted: bool) -> tuple[Rule, ...]:
    """In the order in which they claim time; for timelines that were measured, or that a plan predicted."""
    return RULES_OF_PLANS if predicted else RULES
