"""The places that were seen in this process, told as they come."""

from __future__ import annotations

import json

from redline.capture.places import SCRIPT, Place
from redline.capture.worker.places.call_sites import SourceCall, SourceCalls, is_call_of
from redline.capture.worker.places.frame_locals import locals_of
from redline.capture.worker.places.own_files import OwnFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

_MOST_LETTERS = 24 << 10  # of all places: there is room for 64 KiB of facts
_MOST_CALLERS = 5


class SeenPlaces:
    """Each once, with what was known of it at run time."""

    def __init__(self, tell: Callable[[str, object], None]) -> None:
        self.files = OwnFiles()
        self.sites = SourceCalls()
        self._tell = tell
        self._places: dict[str, dict[str, object]] = {}  # by their text
        self._letters = 0
        self._kinds: set[str] = set()

    def add(self, place: Place) -> None:
        """Where there are more than can be told, that itself is told for each kind."""
        if self._letters > _MOST_LETTERS and place.kind != SCRIPT:
            place = Place(kind=place.kind, why_not="it is made or called at more places than could be told")
        told = place.told()
        key = json.dumps(told, sort_keys=True, default=str)
        if key not in self._places:
            self._places[key] = told
            self._letters += len(key)
            self._kinds.add(place.kind)
            self._tell("places", list(self._places.values()))

    def add_script(self) -> None:
        path = self.files.script()
        if path:
            self.add(Place(kind=SCRIPT, file=path, digest=self.sites.digest(path)))

    def add_call(self, kind: str, frame: FrameType | None, called: object, name: str, **details: Any) -> None:
        """The call that this frame is making."""
        if frame is None:
            return
        site = self.site(frame)
        if not self.files.is_own(frame.f_code):
            why_not = "it is done in a package that is not yours"
        elif site.call is None or not is_call_of(site.call, called, name, locals_of(frame), frame.f_globals):
            why_not = "the text does not show what is called there"
        else:
            why_not = ""
        self.add(self.place(kind, site, callee=name, why_not=why_not, details=details))

    def site(self, frame: FrameType) -> SourceCall:
        return self.sites.at(frame.f_code, frame.f_lasti, self.files.path(frame.f_code))

    def place(self, kind: str, site: SourceCall, **others: Any) -> Place:
        return Place(
            kind=kind,
            file=self.files.path(site.code),
            digest=site.digest,
            line=site.line,
            column=site.column,
            end_line=site.end_line,
            end_column=site.end_column,
            function=site.code.co_qualname,
            **others,
        )

    def callers(self, frame: FrameType | None) -> list[dict[str, object]]:
        """Calls in files of the user that led to this one, from the inside out."""
        own = [outer for outer in self.files.outwards(frame) if self.files.is_own(outer.f_code)]
        return [self.place("caller", self.site(outer)).told() for outer in own[:_MOST_CALLERS]]
