"""What a change may do to the numbers that a job computes."""

from enum import StrEnum


class Numerics(StrEnum):
    """At most this."""

    BITWISE = "bitwise"  # the same bits
    REASSOCIATION = "reassociation"  # the same sums in another order
    LOWER_PRECISION = "lower precision"
    SEMANTICS = "changes semantics"  # what is trained or computed is no longer quite the same
