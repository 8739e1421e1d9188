"""Whether what a digest from a file says of findings has all that the rules need to explain them."""

from redline.analysis.rank.digest import Digest
from redline.analysis.rank.sighting import Sighting
from redline.errors import InputError
from redline.findings.registry import RULES

_BY_CODE = {rule.code: rule for rule in RULES}


def check_sightings(digest: Digest, where: str) -> None:
    """InputError where something is missing. What rules of other versions saw is nobody's: it is not looked at."""
    for sighting in digest.sightings:
        wrong = _missing(sighting)
        if wrong:
            raise InputError(f"{where}: not a sound digest ({wrong}). Make it anew: redline digest")


def _missing(sighting: Sighting) -> str:
    rule = _BY_CODE.get(sighting.code)
    if rule is None:
        return ""
    if rule.look is None:
        return f"{rule.code} is told from all ranks together, not from one"
    figures = [name for name in rule.figures if name not in sighting.figures]
    names = [name for name in rule.names if name not in sighting.names]
    return f"{rule.code} without its {[*figures, *names][0]!r}" if figures or names else ""
