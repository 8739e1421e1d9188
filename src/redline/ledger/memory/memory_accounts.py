"""The accounts of the ledger of bytes. Every byte that the allocator holds is in exactly one of them."""

from enum import StrEnum


class MemoryAccount(StrEnum):
    """What memory is for."""

    PARAMETERS = "parameters"
    GRADIENTS = "gradients"
    OPTIMIZER_STATES = "optimizer states"
    ACTIVATIONS = "activations"
    COMMUNICATION = "gathered weights and communication"
    BACKWARD = "backward pass, gradients or temporaries"
    TEMPORARIES = "temporaries and workspaces"
    LOGITS = "logits and loss"
    INPUTS = "inputs"
    UNKNOWN = "unknown"
    CACHED = "cached but free"
