"""The order in which rules claim time: each gets what the rules before it have left.

Time in which the job had no core is nobody else's. Then what happens at single moments claims, then launching as a
whole, then what single kernels could save, then communication. So a cause that another one's fix would remove as well
gets only what that one leaves.
"""

from enum import IntEnum, auto


class ClaimOrder(IntEnum):
    """First to last. Rules of the same place claim in the order of their codes."""

    # no time of the job at all: its thread had no core
    STARVED = auto()
    THREADS = auto()  # of the process hold it up

    # single moments
    ENGINE_GAPS = auto()  # between the steps of a serving engine
    MOMENTS = auto()  # loading, waiting for the device, pauses
    HOST_WORK = auto()  # pauses that no rule before has named

    # launching as a whole
    ENGINE_LAUNCHES = auto()
    LAUNCHES = auto()

    # kernels and copies
    DDP_COPIES = auto()
    AVOIDABLE_KERNELS = auto()  # that another setting does not need
    MEMORY_TRAFFIC = auto()  # of attention scores, of weights while decoding
    MATRIX_PRODUCTS = auto()
    ELEMENTWISE = auto()

    # communication: waiting for other ranks, then transfer
    PIPELINE_WAITS = auto()
    AVOIDABLE_EXCHANGES = auto()  # that can be left out, with the waiting in them
    LATE_RANKS = auto()
    LATE_GRADIENTS = auto()  # exchanged when nothing is left to compute
    AVOIDABLE_TRANSFER = auto()  # that can be left out, or is far slower than its link
    GRADIENT_TRANSFER = auto()
    REPEATED_GATHERS = auto()
    TRANSFER = auto()

    NOTHING = auto()  # a remark about the trace or its phases, with nothing to gain
