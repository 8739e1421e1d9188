"""The reference page lists exactly the families and the names that are known."""

import re
from pathlib import Path

from redline.model.huggingface import DIFFUSION, FAMILIES, known_models

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "models.md").read_text(encoding="utf-8")


def table(head: str) -> set[str]:
    """Code words in the first column of the table that begins with this head."""
    rows = PAGE.split(head, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_the_page_lists_every_family() -> None:
    assert table("| `model_type` |") == set(FAMILIES)
    assert table("| `_class_name` |") == set(DIFFUSION)


def test_the_page_lists_every_known_name() -> None:
    assert set(re.findall(r"`([^`]+)`", PAGE.split("in short.\n", 1)[1])) == set(known_models())
