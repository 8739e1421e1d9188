"""Scenarios as text: `kernels(gemm)/2, sync=0` is parsed, checked, and written the same way again."""

import re
from collections.abc import Iterable
from dataclasses import field
from difflib import get_close_matches
from typing import NoReturn

from redline.errors import UsageError
from redline.replay.changes import Scenario, Target, TimeChange
from redline.trace.schema import KERNEL_CLASSES
from redline.values import dataclass

MOST_SCENARIOS = 64
_MOST_CHANGES = 32
_MOST_RANKS = 1 << 20
_MOST_WORKERS = 1024
_PATTERNED = (Target.KERNELS, Target.COLLECTIVES, Target.COPIES, Target.OPERATOR)
_NEEDS_PATTERN = (Target.OPERATOR,)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+")
_WHOLE = re.compile(r"\d{1,9}")
_WORD = re.compile(r"[A-Za-z]+")
_SPACE = re.compile(r"\s*")
_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")
_BARE = re.compile(r"[^\s\",()][^\",()]*")  # what is written without quotes
_LIKE = ("like", "the", "others")
_TARGETS = tuple(str(target) for target in Target if target is not Target.RANK)
BEGINNINGS = (*_TARGETS, "rank", "remove")
"""The first words of changes."""
_EXAMPLES = "write it as 'loader=0', 'host/2' or 'kernels(gemm)*0.8'"


def parse_scenario(text: str) -> Scenario:
    """Raises UsageError, which names the position and what can be written there."""
    reader = _Reader(text)
    changes = [_change(reader)]
    while not reader.is_at_end:
        if not reader.took(","):
            reader.refuse("a comma goes between changes")
        if len(changes) == _MOST_CHANGES:
            reader.refuse(f"a scenario has at most {_MOST_CHANGES} changes")
        changes.append(_change(reader))
    return Scenario(name=scenario_text(changes), changes=tuple(changes))


def parse_scenarios(texts: Iterable[str]) -> tuple[Scenario, ...]:
    """Each once, in order."""
    scenarios = tuple(dict.fromkeys(map(parse_scenario, texts)))
    if len(scenarios) > MOST_SCENARIOS:
        raise UsageError(f"{len(scenarios)} scenarios at once; at most {MOST_SCENARIOS} are replayed together")
    return scenarios


def scenario_text(changes: Iterable[TimeChange]) -> str:
    """What `parse_scenario` reads as the same changes."""
    return ", ".join(map(_change_text, changes))


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass
class _Reader:
    """A text and how far it was read."""

    text: str
    at: int = 0
    _begun: int = field(init=False, default=0)  # of the last thing that was read

    def __post_init__(self) -> None:
        self._skip()

    def _skip(self) -> None:
        self.at = _ends(_SPACE, self.text, self.at)

    @property
    def is_at_end(self) -> bool:
        return self.at == len(self.text)

    def read(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """What is here, with the blanks after it."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self._begun, self.at = self.at, found.end()
            self._skip()
        return found

    def took(self, mark: str) -> bool:
        return self.read(re.compile(re.escape(mark))) is not None

    def word(self) -> str:
        found = self.read(_WORD)
        return found[0].lower() if found is not None else ""

    def peek_word(self) -> str:
        found = _WORD.match(self.text, self.at)
        return found[0].lower() if found is not None else ""

    def refuse(self, why: str, *, at: int | None = None) -> NoReturn:
        place = self.at if at is None else at
        raise UsageError(f"{self.text!r}, at character {place + 1}: {why}")

    def refuse_last(self, why: str) -> NoReturn:
        self.refuse(why, at=self._begun)


def _ends(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found is not None else at


def _change(reader: _Reader) -> TimeChange:
    begun = reader.at
    word = reader.word()
    if word in ("rank", "ranks"):
        ranks = _ranks(reader)
        _like_the_others(reader)
        return TimeChange(target=Target.RANK, ranks=ranks, factor=1.0, like_others=True)
    if word == "remove":
        pattern = _name(reader, "name an operator, such as 'remove aten::copy_'")
        return TimeChange(target=Target.OPERATOR, pattern=pattern, factor=0.0)
    if word not in _TARGETS:
        reader.refuse(_no_target(word), at=begun)
    target = Target(word)
    if target is Target.LOADER and reader.peek_word() == "workers":
        workers = _workers(reader)
        return TimeChange(target=target, workers=workers, ranks=_on_ranks(reader))
    pattern = _pattern(reader, target)
    factor = _factor(reader, target)
    return TimeChange(target=target, pattern=pattern, factor=factor, ranks=_on_ranks(reader))


def _no_target(word: str) -> str:
    if not word:
        return f"there is nothing to change; {_EXAMPLES}"
    near = get_close_matches(word, BEGINNINGS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"there is no {word!r}; {hint}There are: {', '.join(BEGINNINGS)}"


def _pattern(reader: _Reader, target: Target) -> str:
    begun = reader.at
    if not reader.took("("):
        if target in _NEEDS_PATTERN:
            reader.refuse(f"name the {target} in parentheses, such as {target}(aten::copy_)/2")
        return ""
    if target not in _PATTERNED:
        reader.refuse(f"{target} has no kinds to choose from; leave the parentheses out", at=begun)
    classes = f"; classes are: {', '.join(KERNEL_CLASSES)}" if target is Target.KERNELS else ""
    pattern = _name(reader, f"write a part of their names{classes}")
    if not reader.took(")"):
        reader.refuse("the parenthesis is not closed; a name with parentheses or commas goes in double quotes")
    return pattern


def _name(reader: _Reader, wanted: str) -> str:
    """Bare, or in double quotes, of which two are one."""
    if reader.took('"'):
        return _quoted(reader, wanted)
    found = reader.read(_BARE)
    if found is None:
        reader.refuse(wanted)
    return found[0].strip()


def _quoted(reader: _Reader, wanted: str) -> str:
    begun = reader._begun
    found = re.compile(r'((?:[^"]|"")*)"').match(reader.text, begun + 1)
    if found is None:
        reader.refuse("the quotes are not closed", at=begun)
    reader.at = begun + 1
    reader.read(re.compile(re.escape(found[0])))
    name = found[1].replace('""', '"')
    if not name:
        reader.refuse(wanted, at=begun)
    return name


def _factor(reader: _Reader, target: Target) -> float:
    begun = reader.at
    sign = next((sign for sign in "=/*" if reader.took(sign)), "")
    if not sign:
        reader.refuse(f"what of {target}? {_EXAMPLES}")
    found = reader.read(_NUMBER)
    if found is None:
        reader.refuse(f"a number goes here; {_EXAMPLES}")
    number = float(found[0])
    if sign == "=":
        if number:
            reader.refuse(f"only 0 can be set: what is gone. For less, {_EXAMPLES}", at=begun)
        return 0.0
    if not 1e-6 <= number <= 1e6:
        reader.refuse_last("a factor is between 0.000001 and 1000000; to have it gone, write '=0'")
    is_rate = target is Target.NETWORK  # twice the network is half the time
    return 1 / number if (sign == "/") is not is_rate else number


def _workers(reader: _Reader) -> int:
    reader.word()
    found = reader.read(_WHOLE) if reader.took("=") else None
    if found is None:
        reader.refuse("write how many there are to be, such as 'loader workers=4'")
    if not 1 <= int(found[0]) <= _MOST_WORKERS:
        reader.refuse_last(f"workers are 1 to {_MOST_WORKERS}")
    return int(found[0])


def _on_ranks(reader: _Reader) -> tuple[int, ...]:
    if reader.peek_word() != "on":
        return ()
    reader.word()
    if reader.peek_word() not in ("rank", "ranks"):
        reader.refuse("write 'on rank 7' or 'on ranks 0-3'")
    reader.word()
    return _ranks(reader)


def _ranks(reader: _Reader) -> tuple[int, ...]:
    """Numbers and ranges of them, in order, each once."""
    ranks: set[int] = set()
    while (found := reader.read(_RANGE)) is not None:
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            reader.refuse_last(f"a range of ranks goes upwards: {last}-{first}")
        if last >= _MOST_RANKS:
            reader.refuse_last(f"no job has {last + 1:,} ranks")
        ranks.update(range(first, last + 1))
    if not ranks:
        reader.refuse("a number of a rank goes here, such as 7 or 0-3")
    return tuple(sorted(ranks))


def _like_the_others(reader: _Reader) -> None:
    begun = reader.at
    if tuple(reader.word() for _ in _LIKE) != _LIKE:
        reader.refuse("write 'rank 7 like the others'", at=begun)


# --- writing ----------------------------------------------------------------------------------------------------------


def _change_text(change: TimeChange) -> str:
    if change.like_others:
        return f"{_ranks_text(change.ranks)} like the others"
    ranks = f" on {_ranks_text(change.ranks)}" if change.ranks else ""
    if change.target is Target.OPERATOR and not change.factor and not change.ranks:
        return f"remove {_name_text(change.pattern)}"
    if change.workers:
        return f"{change.target} workers={change.workers}{ranks}"
    pattern = f"({_name_text(change.pattern)})" if change.pattern else ""
    return f"{change.target}{pattern}{_factor_text(change)}{ranks}"


def _factor_text(change: TimeChange) -> str:
    """As a division where that is exact and shorter: half is /2."""
    if not change.factor:
        return "=0"
    is_rate = change.target is Target.NETWORK
    inverse = 1 / change.factor
    is_shorter = change.factor < 1 and len(_plain(inverse)) < len(_plain(change.factor))
    if 1 / inverse == change.factor and is_shorter:
        return f"{'*' if is_rate else '/'}{_plain(inverse)}"
    return f"{'/' if is_rate else '*'}{_plain(change.factor)}"


def _plain(number: float) -> str:
    return f"{number:.0f}" if number == round(number) and number < 1e15 else repr(number)


def _ranks_text(ranks: tuple[int, ...]) -> str:
    pieces: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if pieces and rank == pieces[-1][-1] + 1:
            pieces[-1][1:] = [rank]
        else:
            pieces.append([rank])
    word = "rank" if len(pieces) == 1 and len(pieces[0]) == 1 else "ranks"
    return " ".join([word, *("-".join(map(str, piece)) for piece in pieces)])


def _name_text(name: str) -> str:
    is_bare = _BARE.fullmatch(name) is not None and name == name.strip()
    return name if is_bare else '"' + name.replace('"', '""') + '"'
