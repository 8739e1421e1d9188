"""The colours of accounts: told apart by eyes of every common kind, in light and in dark, and seen on the page."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from redline.ledger.accounts import ACCOUNTS
from redline.report.diagnose import account_messages
from redline.report.html import frame

STYLE = (Path(frame.__file__).with_name("style.css")).read_text()
APART = 8.0  # in OKLab times 100: two colours side by side differ clearly
SEEN = 1.3  # contrast with the panel

Vector = npt.NDArray[np.float64]

# Machado, Oliveira and Fernandes 2009, "A physiologically-based model for simulation of color vision deficiency".
EYES = {
    "usual": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "no blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# Ottosson 2020, "A perceptual color space for image processing".
CONES = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]])
CONES = np.vstack([CONES, [0.0883024619, 0.2817188376, 0.6299787005]])
OKLAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099]])
OKLAB = np.vstack([OKLAB, [0.0259040371, 0.7827717662, -0.8086757660]])


def colours(theme: str) -> dict[str, str]:
    """All variables that a theme sets to a colour."""
    blocks = {
        "light": STYLE.partition(":root {")[2],
        "dark by choice": STYLE.partition(':root[data-theme="dark"] {')[2],
        "dark by system": STYLE.partition(':root:not([data-theme="light"]) {')[2],
    }
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", blocks[theme].partition("}")[0]))


def linear(colour: str) -> Vector:
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def perceived(colour: str, eyes: Vector) -> Vector:
    light = np.clip(eyes @ linear(colour), 0, 1)
    lab: Vector = 100 * (OKLAB @ np.cbrt(CONES @ light))
    return lab


def luminance(colour: str) -> float:
    return float(np.dot([0.2126, 0.7152, 0.0722], linear(colour)))


@pytest.mark.parametrize("theme", ["light", "dark by choice", "dark by system"])
@pytest.mark.parametrize("eyes", EYES)
def test_accounts_are_told_apart(theme: str, eyes: str) -> None:
    known = colours(theme)
    seen = {account: perceived(known[f"a-{account_messages.colour(account)}"], EYES[eyes]) for account in ACCOUNTS}
    for one, two in combinations(ACCOUNTS, 2):
        assert np.linalg.norm(seen[one] - seen[two]) >= APART, (one, two)


@pytest.mark.parametrize("theme", ["light", "dark by choice"])
def test_accounts_are_seen_on_the_page(theme: str) -> None:
    known = colours(theme)
    for account in ACCOUNTS:
        one, two = sorted([luminance(known[f"a-{account_messages.colour(account)}"]), luminance(known["panel"])])
        assert (two + 0.05) / (one + 0.05) >= SEEN, account


def test_both_ways_to_the_dark_theme_are_the_same() -> None:
    assert colours("dark by choice") == colours("dark by system")
