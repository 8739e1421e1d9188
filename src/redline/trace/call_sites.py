"""Which function of a recorded stack is the script's own: neither torch's nor Python's."""

import re
import sys

from redline.timeline.timeline import NONE
from redline.trace.column_builder import Numbering

# A Python function, as the profiler names it: path, first line, name. Built-in ones and modules have no path.
_FUNCTION = re.compile(r"^(?P<top>[^/(<]+?)(\.py)?[/(].*: ")
_ANYWHERE = re.compile(r"^/.+\(\d+\): ")
_OF_PYTHON = re.compile(r"/lib(64)?/python\d[^/]*/")
_PACKAGES = "site-packages/"
_NOT_THEIRS = sys.stdlib_module_names | {"torch"}


def is_their_code(name: str) -> bool:
    """Whether a Python call is in neither torch nor the standard library."""
    match = _FUNCTION.match(name.rpartition(_PACKAGES)[2])
    return match is not None and match["top"] not in _NOT_THEIRS


def site_in(stack: str) -> str:
    """The innermost function of the script in a stack as operators of 2021 carry it; "" without one.

    `torch/nn/functional.py(1169): dropout;/home/user/train.py(54): forward`, the innermost first, with whole paths.
    """
    return next(filter(_is_their_frame, stack.split(";")), "")


def _is_their_frame(frame: str) -> bool:
    if _PACKAGES in frame or not frame.startswith("/"):
        return is_their_code(frame)
    return _ANYWHERE.match(frame) is not None and _OF_PYTHON.search(frame) is None


class SiteNumbering(dict[str, int]):
    """Numbers of call sites among all texts, by the stack that they are in; without one -1."""

    def __init__(self, texts: Numbering[str]) -> None:
        super().__init__({"": NONE})
        self._texts = texts

    def __missing__(self, stack: str) -> int:
        site = site_in(stack)
        self[stack] = number = self._texts[site] if site else NONE
        return number
