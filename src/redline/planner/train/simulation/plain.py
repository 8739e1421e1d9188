"""The pieces of one layout as plain numbers, for what goes through a step one by one."""

from dataclasses import fields

from redline.planner.train.time.pieces import Pieces


class PlainPieces:
    """Has every field of Pieces, as a number."""

    def __init__(self, pieces: Pieces) -> None:
        """The pieces of one row: numbers, or columns of one."""
        for field in fields(Pieces):
            self.__dict__[field.name] = float(getattr(pieces, field.name))

    def __getattr__(self, name: str) -> float:
        raise AttributeError(f"Pieces have no field {name!r}")
