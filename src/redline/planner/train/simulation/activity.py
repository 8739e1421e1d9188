"""What a device can be doing in a predicted step."""

from enum import IntEnum


class EventKind(IntEnum):
    """Computing, sending, or moving memory."""

    FORWARD = 0
    RECOMPUTE = 1
    BACKWARD = 2
    WEIGHTS = 3
    HEAD_FORWARD = 4
    HEAD_BACKWARD = 5
    OPTIMIZER = 6
    TENSOR = 10
    CONTEXT = 11
    EXPERT = 12
    GATHER = 13
    SCATTER = 14
    REDUCE = 15
    BROADCAST = 16
    SEND = 17
    RECEIVE = 18
    MEET = 19  # all stages agree on the norm of gradients before the optimizer
    OFFLOAD = 20
    HOST = 21  # the device waits for the host, which does something else than launching
