"""The corpus of damaged traces: every malformation seen in public, F01 to F53, made from one clean seed.

    for case in corpus(seed_trace()):
        path = directory / case.file_name
        path.write_bytes(case.data)
        ...  # read it, and compare with case.expected

The damage is put into the text of the seed and keeps every other byte. A case for which a seed has no suitable event
(no kernels, no rank) is left out; `seed_trace` has one for each.
"""

from collections.abc import Iterator

from tests.support.damage import fields, files, links, syntax, times
from tests.support.damage.case import READS, REFUSED, Case, Expected, Recipe
from tests.support.damage.seed import seed_trace
from tests.support.damage.text import NoSuitableEventError, TraceText

__all__ = ["READS", "RECIPES", "REFUSED", "Case", "Expected", "corpus", "seed_trace"]

RECIPES: tuple[Recipe, ...] = tuple(
    sorted(
        (
            *syntax.RECIPES,
            *fields.RECIPES,
            *times.RECIPES,
            *links.RECIPES,
            *files.RECIPES,
        ),
        key=lambda recipe: recipe.id,
    )
)


def corpus(seed: bytes, every: int = 1) -> Iterator[Case]:
    """Each damaged variant of a Kineto trace in JSON text, or one of so many, in order of the specification's rows."""
    trace = TraceText.parse(seed)
    for recipe in RECIPES[::every]:
        try:
            made = recipe.make(trace)
        except NoSuitableEventError:
            continue
        row = recipe.id.partition("-")[0]
        yield Case(id=recipe.id, row=row, file_name=made.file_name, data=made.data, expected=made.expected)
