"""Two versions of files as a patch that `git apply` takes in the folder of the files."""

import difflib

_NO_NEWLINE = "\\ No newline at end of file\n"
_CONTEXT = 3


def unified_diff(name: str, before: bytes, after: bytes) -> str:
    """`name` is relative to the folder, with `/`. Ends of lines are kept: write it without translating them."""
    if before == after:
        return ""
    # Without a line `diff --git`, names are relative to the folder in which git runs, in a subfolder as well.
    names = [f"{sign} {_quoted(f'{side}/{name}')}\n" for sign, side in (("---", "a"), ("+++", "b"))]
    hunks = difflib.unified_diff(_lines(before), _lines(after), n=_CONTEXT)
    body = list(hunks)[2:]
    return "".join([*names, *map(_ended, body)])


def _lines(data: bytes) -> list[str]:
    """As git counts them: a line ends with a line feed and nothing else."""
    *lines, rest = data.decode().split("\n")
    return [*(f"{line}\n" for line in lines), *([rest] if rest else [])]


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def _quoted(name: str) -> str:
    """As git reads names: the end of one with spaces is marked by a tab, letters that it would misread are quoted."""
    if any(letter in '"\\' or ord(letter) < ord(" ") for letter in name):
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(f"\\{ord(one):03o}" if ord(one) < ord(" ") else one for one in escaped) + '"'
    return f"{name}\t" if " " in name else name
