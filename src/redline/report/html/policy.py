"""What keeps a report harmless: names are data and never code, and the page may neither fetch nor run anything else."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from redline.report.terminal import visible_lines

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def embedded_json(value: object) -> Markup:
    """JSON that stands in a script element as it is: no text in it can end that element, or any line of it."""
    text = json.dumps(_visible(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for letter, escape in _ESCAPES.items():
        text = text.replace(letter, escape)
    return Markup(text)  # nothing in it is markup any more


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible_lines(value)
    if isinstance(value, Mapping):
        return {_visible(key): _visible(member) for key, member in value.items()}
    return [_visible(item) for item in value] if isinstance(value, list | tuple) else value


def shown(value: Any) -> Any:
    """What a template puts into a page: texts without hidden letters, and markup of ours as it is."""
    return visible_lines(value) if type(value) is str else value


def script_of(text: str) -> Markup:
    """A script of ours as it stands in the page; browsers read any line break as a line feed, so its hash must."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lower = text.lower()
    if "</script" in lower or "<!--" in lower:
        raise ValueError("a script that holds </script or <!-- cannot stand in a page")
    return Markup(text)  # a file that we ship, or Plotly's


def policy_of(scripts: Sequence[str]) -> str:
    """The content security policy: these scripts run and no others; styles may be inline, as Plotly sets them."""
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {hashes}",
            "style-src 'unsafe-inline'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(str(text).encode()).digest()).decode()
