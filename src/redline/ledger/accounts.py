"""The accounts of the ledgers: every nanosecond of a step, and every byte of a device, is in exactly one of them."""

from enum import StrEnum


class Account(StrEnum):
    """Where a device's time goes, from the redline upwards."""

    MATH = "math"
    MEMORY = "memory"
    KERNEL_LOSS = "kernel loss"
    UNRATED = "unrated compute"
    TRANSFER = "transfer"
    PEER_WAIT = "peer wait"
    COPY = "copy"
    INPUT = "input"
    SYNC = "sync"
    HOST = "host"
    QUEUE = "queue"
    OTHER = "other"


ACCOUNTS = tuple(Account)
COMPUTE = (Account.MATH, Account.MEMORY, Account.KERNEL_LOSS, Account.UNRATED)
COMMUNICATION = (Account.TRANSFER, Account.PEER_WAIT)
BUSY = (*COMPUTE, *COMMUNICATION, Account.COPY)
IDLE = (Account.INPUT, Account.SYNC, Account.HOST, Account.QUEUE, Account.OTHER)
LOSSES = ACCOUNTS[1:]


def place(account: Account) -> int:
    """The column of an account in a ledger."""
    return ACCOUNTS.index(account)


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
