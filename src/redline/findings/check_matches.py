"""Whether what a digest from a file says of findings has all that the rules need to explain them."""

from redline.errors import InputError
from redline.findings.registry import RULES
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.rank_match import RankMatch

_BY_CODE = {rule.code: rule for rule in RULES}


def check_matches(digest: Digest, where: str) -> None:
    """InputError where something is missing. Matches of rules of other versions are ignored."""
    for match in digest.matches:
        wrong = _missing(match)
        if wrong:
            raise InputError(f"{where}: not a sound digest ({wrong}). Make it anew: redline digest")


def _missing(match: RankMatch) -> str:
    rule = _BY_CODE.get(match.code)
    if rule is None:
        return ""
    if rule.match is None:
        return f"{rule.code} is told from all ranks together, not from one"
    figures = [name for name in rule.figures if name not in match.figures]
    names = [name for name in rule.names if name not in match.names]
    return f"{rule.code} without its {[*figures, *names][0]!r}" if figures or names else ""
