"""Bars of text: from where a share of a whole starts to where it ends."""

BAR_WIDTH = 52
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_FULL, _RIGHT_HALF = "█", "▐"


def bar(start: float, end: float, *, unicode: bool = True, width: int = BAR_WIDTH) -> str:
    """Positions are shares of the whole. Without `unicode` the bar is of plain letters."""
    return _drawn(start, end, width) if unicode else _plain(start, end, width)


def _drawn(start: float, end: float, width: int) -> str:
    """To a half of a cell at the left and an eighth at the right."""
    halves, eighths = round(start * width * 2), round(end * width * 8)
    eighths = max(eighths, halves * 4 + 1)  # what is there is seen
    blank, starts_in_half = divmod(halves, 2)
    if starts_in_half and eighths <= blank * 8 + 8:
        return " " * blank + _RIGHT_HALF
    first = blank + 1 if starts_in_half else blank
    full, rest = divmod(eighths - first * 8, 8)
    return " " * blank + (_RIGHT_HALF if starts_in_half else "") + _FULL * full + _EIGHTHS[rest]


def _plain(start: float, end: float, width: int) -> str:
    first, last = round(start * width), round(end * width)
    first = min(first, width - 1)
    return " " * first + "#" * max(last - first, 1)
