"""Small pieces of text that every report uses: names cut short, shares, lists of ranks."""

from collections.abc import Iterable

from redline.job.read_failures import Failure, unread_of
from redline.report.language import _, ngettext


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def clipped(text: str, limit: int = 120) -> str:
    """No longer than so many letters; what is left out at the end is shown by dots."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def share(part: int, whole: int) -> str:
    """ "17.5 %"; a dash where there is no whole."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def percent(ratio: float) -> str:
    return f"{100 * ratio:.1f} %"


def interval(low: str, high: str) -> str:
    """13.0 s and 24.0 s -> "13.0-24.0 s"; each with its unit where these differ."""
    number, _space, unit = low.rpartition(" ")
    return f"{number}-{high}" if high.endswith(f" {unit}") else f"{low}-{high}"


def rank_list(ranks: Iterable[int], limit: int = 12) -> str:
    """Numbers with runs folded: 0-3, 7, 9-12."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    words = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    text = ", ".join(words[:limit])
    more = len(words) - limit
    return _("{ranks} and {count} more").format(ranks=text, count=more) if more > 0 else text


def about_some_ranks(ranks: int, world_size: int, failures: Iterable[Failure]) -> str:
    """The first sentence of a result that is not of all ranks; "" where every file could be read."""
    unread = unread_of(failures)
    if not unread:
        return ""
    text = ngettext(
        "This is about {ranks:,} of {total:,} ranks; {unread:,} file could not be read.",
        "This is about {ranks:,} of {total:,} ranks; {unread:,} files could not be read.",
        unread,
    )
    total = world_size if world_size >= max(ranks, 2) else ranks + unread
    return text.format(ranks=ranks, total=total, unread=unread)


def plural(count: int, word: str, words: str = "") -> str:
    """1 rank, 2 ranks; `words` where the plural is not the word and an s."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"
