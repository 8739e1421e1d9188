"""Writes sections of `accuracy.json`, which every plan quotes and `redline plan validate` prints."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redline.plan.accuracy import FILE, accuracy_of

# A list of numbers stands on one line.
NUMBERS = re.compile(r"\[\s+([-+\d.e,\s]+?)\s+\]")


def renew(**sections: Mapping[str, Any]) -> None:
    path = Path(str(FILE))
    text = json.dumps(json.loads(path.read_bytes()) | sections, indent=1)
    path.write_text(NUMBERS.sub(lambda found: "[" + " ".join(found[1].split()) + "]", text) + "\n", encoding="utf-8")
    accuracy_of.cache_clear()
