"""A digest that anybody may have written: what it cannot hold is refused in one line that says which field is wrong."""

from collections.abc import Callable
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zstandard

from redline.errors import InputError
from redline.findings.match import check_matches
from redline.findings.registry import RULES
from redline.findings.rule import MatchTotals, Rule
from redline.ledger.accounts import ACCOUNTS
from redline.ledger.rank.digest_file import decoded
from redline.ledger.rank.packing import packed, unpacked
from tests.support.command_line import run_redline
from tests.support.fuzzing.records import digest_seeds

ON_RANKS = [rule for rule in RULES if rule.match is not None]
Change = Callable[[Any], None]


def changed(change: Change) -> bytes:
    record = msgspec.msgpack.decode(msgspec.msgpack.encode(digest_seeds()[2]))
    change(record)
    return zstandard.compress(msgspec.msgpack.encode(record))


def put(*path: str | int, to: Any) -> Change:
    """A value at a place of the record."""

    def change(record: Any) -> None:
        for key in path[:-1]:
            record = record[key]
        record[path[-1]] = to

    return change


def column(name: str, row: int, number: int, rows: int, *, at: tuple[Any, ...] = ()) -> Change:
    """Another number first in a row of a packed column."""

    def change(record: Any) -> None:
        for key in at:
            record = record[key]
        values = np.array(unpacked(record[name], rows))
        values[row, 0] = number
        record[name] = packed(values)

    return change


def both(*changes: Change) -> Change:
    def change(record: Any) -> None:
        for one in changes:
            one(record)

    return change


RANGES = {
    "a rank that no job has": (put("origin", "rank", to=10**6), "Expected `int` <= 999999 - at `$.origin.rank`"),
    "a world that no job has": (put("origin", "world_size", to=-1), "Expected `int` >= 0 - at `$.origin.world_size`"),
    "nan": (put("facts", "fabric_bytes_per_s", to=nan), "Expected `float` >= 0.0 - at `$.facts.fabric_bytes_per_s`"),
    "infinite": (put("arithmetic", 0, "peak_flops_per_s", to=inf), "<= 1e+30 - at `$.arithmetic[0].peak_flops_per_s`"),
    "a device of no kind": (put("facts", "device", to="tpu"), "matching regex '^(gpu|cpu)$' - at `$.facts.device`"),
    "a count below zero": (put("facts", "kernels", to=-1), "Expected `int` >= 0 - at `$.facts.kernels`"),
    "a figure that is none": (put("sightings", 0, "figures", "loading_ns", to=nan), "`$.sightings[0].figures[...]`"),
    "an account that is none": (put("doing", 0, "account", to="x"), "Invalid enum value 'x' - at `$.doing[0].account`"),
    "too few accounts": (put("outside", to=[1]), "Expected `array` of length >= 12 - at `$.outside`"),
    "a short signature": (put("signature", to=[1]), "Expected `array` of length >= 48 - at `$.signature`"),
    "too many rows": (put("doing", to=[{}] * 65_537), "Expected `array` of length <= 65536 - at `$.doing`"),
    "too many sightings": (put("sightings", to=[{}] * 300), "Expected `array` of length <= 256 - at `$.sightings`"),
    "kernels that need less than no time": (put("kernels", 0, "math_ns", to=-1.0), "what a kernel needs is no time"),
    "a kernel of which one need is known": (
        put("kernels", 0, "memory_ns", to=nan),
        "a kernel of which one need is known, and the other is not",
    ),
    "a peak next to nothing": (
        put("arithmetic", 0, "peak_flops_per_s", to=5e-324),
        "a rate of a machine is next to nothing",
    ),
    "kernels that need for ever": (put("kernels", 0, "memory_ns", to=inf), "what a kernel needs is no time"),
    "kernels of more time than 64 bits hold": (
        both(*(put("kernels", row, "time_ns", to=10**18) for row in range(2))),
        "kernels of more calls or time than there can be",
    ),
    "kernels of more calls than can be": (
        both(*(put("kernels", row, "calls", to=10**15) for row in range(2))),
        "kernels of more calls or time than there can be",
    ),
    "a window that ends first": (put("window_ns", to=[5, 4]), "window_ns is no stretch of time"),
    "a window of years": (put("window_ns", to=[0, 10**17]), "window_ns is no stretch of time"),
    "a step before the window": (column("ledger", 0, -5, 2 + len(ACCOUNTS)), "a step does not start inside the window"),
    "a step that ends late": (column("ledger", 1, 2**62, 2 + len(ACCOUNTS)), "a step does not end inside the window"),
    "a negative account": (column("ledger", 2, -7, 2 + len(ACCOUNTS)), "an account of a step is no time"),
    "accounts that are not the step": (column("ledger", 2, 7, 2 + len(ACCOUNTS)), "accounts add up to each step"),
    "too few phases": (put("phases", to=[1]), "phases of another number"),
    "phases that are not the steps": (put("phases", 0, to=1), "phases do not add up to the steps"),
    "exposed time outside": (column("exposed", 1, 2**61, 2), "exposed is not inside the window"),
    "an exchange of no kind": (column("exchanges", 2, 99, 14), "an exchange of no kind"),
    "an exchange of no length": (column("exchanges", 1, 0, 14), "an exchange of no length"),
    "an exchange hidden for less than no time": (column("exchanges", 3, -1, 14), "whose hidden_ns is no time"),
    "partners that are none": (
        both(put("series", 0, "collective", to="point_to_point"), put("series", 0, "group", to="0->2000000")),
        "ranks '0->2000000' of an exchange are none",
    ),
    "partners that are no numbers": (
        both(put("series", 0, "collective", to="point_to_point"), put("series", 0, "group", to="0->x")),
        "invalid literal for int()",
    ),
    "a claim above the step": (column("by_step", 1, 2**61, 2, at=("sightings", 0)), "does not fit the steps"),
    "a place outside": (column("places", 1, 2**61, 2, at=("sightings", 0)), "saw is not inside the window"),
    "a claimed account that is none": (put("sightings", 0, "accounts", to={"x": 1}), "an account that is none: ['x']"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), RANGES.values(), ids=RANGES)
def test_what_a_digest_cannot_hold_is_refused_in_one_line(change: Change, message: str) -> None:
    with pytest.raises(InputError) as caught:
        decoded(changed(change), "a.digest")
    said = str(caught.value)
    assert said.startswith("a.digest: damaged, or not a digest (")
    assert message in said
    assert said.endswith("Make it anew: redline digest")
    assert "\n" not in said


def test_a_digest_that_nests_without_end_is_refused() -> None:
    text = msgspec.msgpack.encode({"envelope": {"a": msgspec.Raw(b"\x91" * 100_000 + b"\x01")}})
    with pytest.raises(InputError, match="maximum recursion depth"):
        decoded(zstandard.compress(text), "a.digest")


def test_digests_that_we_make_are_sound() -> None:
    for record in digest_seeds():
        check_matches(decoded(zstandard.compress(msgspec.msgpack.encode(record)), "a.digest"), "a.digest")


# --- what rules need --------------------------------------------------------------------------------------------------


def _without(number: int, kind: str, name: str, record: Any) -> None:
    del record["sightings"][number][kind][name]


def number_of(rule: Rule) -> int:
    return next(at for at, one in enumerate(digest_seeds()[2]["sightings"]) if one["code"] == rule.code)


@pytest.mark.parametrize("rule", ON_RANKS, ids=lambda rule: rule.code)
def test_a_rule_explains_with_what_it_says_that_it_needs(rule: Rule) -> None:
    seen = MatchTotals(
        ranks=1,
        steps=3,
        step_ns=1e6,
        bound_ns=4e5,
        alone_ns=5e5,
        figures=dict.fromkeys(rule.figures, 5.0),
        names=dict.fromkeys(rule.names, "x"),
    )
    list(rule.explain(seen))  # raises nothing


@pytest.mark.parametrize("rule", [rule for rule in ON_RANKS if rule.figures], ids=lambda rule: rule.code)
def test_a_digest_without_what_a_rule_needs_is_refused(rule: Rule) -> None:
    for kind, names in (("figures", rule.figures), ("names", rule.names)):
        for name in names:
            digest = decoded(changed(partial(_without, number_of(rule), kind, name)), "a.digest")
            with pytest.raises(InputError) as caught:
                check_matches(digest, "a.digest")
            expected = f"a.digest: not a sound digest ({rule.code} without its {name!r}). Make it anew: redline digest"
            assert str(caught.value) == expected


def test_what_only_all_ranks_tell_is_refused_from_one() -> None:
    digest = decoded(changed(put("sightings", 0, "code", to="RL-N11")), "a.digest")
    with pytest.raises(InputError) as caught:
        check_matches(digest, "a.digest")
    assert "(RL-N11 is told from all ranks together, not from one)" in str(caught.value)


def test_a_rule_of_another_version_is_not_looked_at() -> None:
    check_matches(decoded(changed(put("sightings", 0, "code", to="RL-Z99")), "a.digest"), "a.digest")


def without_figures(record: dict[str, Any]) -> None:
    next(match for match in record["sightings"] if match["code"] == "RL-D01")["figures"].clear()


def test_a_bad_digest_among_good_ones_is_named_and_the_others_are_diagnosed(tmp_path: Path) -> None:
    (tmp_path / "rank-0.digest").write_bytes(changed(lambda _: None))
    (tmp_path / "rank-1.digest").write_bytes(changed(without_figures))
    (tmp_path / "rank-2.digest").write_bytes(changed(put("facts", "kernels", to=-1)))
    (tmp_path / "rank-3.digest").write_bytes(changed(put("kernels", 0, "dtype", to="\x1b]52;c;cm0gLXJm\x07")))
    done = run_redline("diagnose", tmp_path, "-v", "--kernels")
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "rank-1.digest: not a sound digest (RL-D01 without its 'loading_ns')" in said
    assert "rank-2.digest: damaged" in said
    assert "\x1b" not in done.stdout
    assert "?]52;c;cm0gLXJm?" in done.stdout
