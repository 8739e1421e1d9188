"""What an HTML page holds, read without a browser."""

import html
import json
import re
from typing import Any


def data_of(text: str) -> Any:
    """What the scripts of a page are given."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def visible(text: str) -> str:
    """Without scripts, styles and tags."""
    text = re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).replace("\u00a0", " ").split())
