"""Write the software bill of materials of a wheel, as CycloneDX JSON, beside it: scripts/write_sbom.py WHEEL

Run by the python of an environment that holds the wheel, what it needs, and no more than pip besides. The same wheel
and the same versions give the same bytes: no time, no path, no name of a machine.
"""

import hashlib
import json
import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

PRODUCT = "redline-perf"
_INSTALLERS = {"pip", "setuptools", "wheel"}
_SPEC_VERSION = "1.6"


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def _reference(one: Distribution) -> str:
    return f"pkg:pypi/{_name(one.name)}@{one.version}"


def _licences(one: Distribution) -> list[dict[str, object]]:
    """As the package states it, an SPDX expression or words; nothing is guessed."""
    said = one.metadata.json
    expression = said.get("license_expression")
    if expression:
        return [{"expression": expression}]
    classified = [line.rpartition(" :: ")[2] for line in said.get("classifier", ()) if "License" in line]
    stated = classified or [str(said.get("license") or "")]
    return [{"license": {"name": text}} for text in stated if text and len(text) < 100 and "\n" not in text]


def _component(one: Distribution, kind: str) -> dict[str, object]:
    found: dict[str, object] = {"type": kind, "bom-ref": _reference(one), "name": one.name, "version": one.version}
    found |= {"purl": _reference(one)}
    licences = _licences(one)
    return {**found, "licenses": licences} if licences else found


def _needed(one: Distribution, installed: dict[str, Distribution]) -> list[str]:
    """What it requires without any extra, as far as it applies to this machine and so is installed."""
    plain = (text for text in one.requires or () if "extra ==" not in text)
    names = {_name(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]) for text in plain}
    return sorted(_reference(installed[name]) for name in names if name in installed)


def bill(wheel: Path) -> dict[str, object]:
    installed = {_name(one.name): one for one in distributions() if _name(one.name) not in _INSTALLERS}
    if PRODUCT not in installed:
        sys.exit(f"{PRODUCT} is not installed beside {sys.executable}; install {wheel} there")
    product = installed[PRODUCT]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    hashes: list[dict[str, str]] = [{"alg": "SHA-256", "content": digest}]
    others = [one for name, one in sorted(installed.items()) if name != PRODUCT]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC_VERSION,
        "version": 1,
        "metadata": {"component": {**_component(product, "application"), "hashes": hashes}},
        "components": [_component(one, "library") for one in others],
        "dependencies": [{"ref": _reference(one), "dependsOn": _needed(one, installed)} for one in (product, *others)],
    }


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wheel = Path(sys.argv[1])
    target = wheel.with_suffix(".cdx.json")
    target.write_text(json.dumps(bill(wheel), indent=1) + "\n")
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
