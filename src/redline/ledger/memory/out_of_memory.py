"""Why an allocation failed: what was asked for, what was free and of no use, and what would have fitted."""

from enum import StrEnum
from itertools import product

import numpy as np

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.attribution import ACCOUNTS, AttributedMemory
from redline.ledger.memory.byte_ledger import ByteLedger, byte_ledger
from redline.values import dataclass

_PAGE_BYTES = 2 << 20  # what the driver gives, and what expandable segments are made of
_OWN_SEGMENT_BYTES = 10 << 20  # a request from this size on gets a segment of its own
_SHARED_SEGMENT_BYTES = 20 << 20  # what smaller ones share
_ID_BYTES = (8, 4)  # of a token
_FLOAT_BYTES = (4, 2)
_FEWEST_WORDS = 1000  # of a vocabulary


class FitChange(StrEnum):
    """What could have made a request fit."""

    EXPANDABLE_SEGMENTS = "expandable segments"
    CLEAR_GRADIENTS = "clear gradients"
    CHUNKED_LOSS = "chunked loss"
    RECOMPUTE = "recompute"
    SMALLER_BATCH = "smaller batch"
    SHARD_STATES = "shard states"


@dataclass(frozen=True, kw_only=True)
class PossibleChange:
    """A change with the most that it can save at the moment of the failure."""

    change: FitChange
    saves_bytes: int
    would_fit: bool
    site: str = ""  # where most of it is


@dataclass(frozen=True, kw_only=True)
class LogitsShape:
    """A request that is a number for each token and word: proven by sizes of inputs and of weights."""

    tokens: int
    vocabulary: int
    element_bytes: int


@dataclass(frozen=True, kw_only=True)
class OutOfMemory:
    """A request that failed."""

    ledger: ByteLedger  # what the memory held
    asked_bytes: int
    needed_bytes: int  # of the driver: it gives whole pages
    driver_free_bytes: int
    site: str
    account: MemoryAccount
    shape: LogitsShape | None
    in_pieces_bytes: int  # free in whole pages, cached or not: what expandable segments could have used
    has_expandable: bool
    changes: tuple[PossibleChange, ...]  # the smallest change first; those that would do before those that would not

    @property
    def short_bytes(self) -> int:
        """What the driver lacked; 0 where it had enough, and a limit of the process was in the way."""
        return max(0, self.needed_bytes - self.driver_free_bytes)


def out_of_memory(memory: AttributedMemory, moment: int) -> OutOfMemory:
    """Of the event of this number, which is an OOM."""
    history = memory.history
    ledger = byte_ledger(memory, moment)
    events = history.events
    asked, free = int(events.size_bytes[moment]), int(events.address[moment])
    evidence = memory.evidence[int(events.stack[moment])]
    needed = _needed_bytes(asked)
    in_pieces = free + sum(hole // _PAGE_BYTES * _PAGE_BYTES for hole in ledger.holes)
    has_expandable = history.snapshot.settings.get("expandable_segments") == "True"
    short = max(0, needed - free)
    changes = [
        PossibleChange(change=change, saves_bytes=saves, would_fit=0 < short <= saves, site=site)
        for change, saves, site in _possible(ledger, asked, evidence.account, 0 if has_expandable else in_pieces - free)
        if saves > 0
    ]
    return OutOfMemory(
        ledger=ledger,
        asked_bytes=asked,
        needed_bytes=needed,
        driver_free_bytes=free,
        site=evidence.site,
        account=evidence.account,
        shape=_logits_shape(memory, asked) if evidence.account is MemoryAccount.LOGITS else None,
        in_pieces_bytes=in_pieces,
        has_expandable=has_expandable,
        changes=tuple(sorted(changes, key=lambda change: not change.would_fit)),
    )


def _needed_bytes(asked: int) -> int:
    """The segment that the driver is asked for."""
    if asked <= 1 << 20:
        return _PAGE_BYTES
    if asked < _OWN_SEGMENT_BYTES:
        return _SHARED_SEGMENT_BYTES
    return -(-asked // _PAGE_BYTES) * _PAGE_BYTES


def _possible(ledger: ByteLedger, asked: int, asked_for: MemoryAccount, pages: int) -> list[tuple[FitChange, int, str]]:
    """Each change with the most that it saves, a setting before a line, a line before a layout."""
    held = ledger.accounts
    is_forward = asked_for in {MemoryAccount.ACTIVATIONS, MemoryAccount.LOGITS}
    scaled = held[MemoryAccount.ACTIVATIONS] + held[MemoryAccount.LOGITS] + (asked if is_forward else 0)
    of_loss = held[MemoryAccount.LOGITS] + (asked if asked_for is MemoryAccount.LOGITS else 0)
    return [
        (FitChange.EXPANDABLE_SEGMENTS, pages, ""),
        (FitChange.CLEAR_GRADIENTS, held[MemoryAccount.GRADIENTS] if is_forward else 0, ""),
        (FitChange.CHUNKED_LOSS, of_loss, _largest_site(ledger, MemoryAccount.LOGITS)),
        (FitChange.RECOMPUTE, held[MemoryAccount.ACTIVATIONS], _largest_site(ledger, MemoryAccount.ACTIVATIONS)),
        (FitChange.SMALLER_BATCH, scaled // 2, ""),
        (FitChange.SHARD_STATES, held[MemoryAccount.OPTIMIZER_STATES], ""),
    ]


def _largest_site(ledger: ByteLedger, account: MemoryAccount) -> str:
    return next((holder.site for holder in ledger.holders if holder.account is account), "")


def _logits_shape(memory: AttributedMemory, asked: int) -> LogitsShape | None:
    """Tokens from an input of ids, the vocabulary from what is left: proven by a weight with as many rows, each as long
    as another weight is whole (that of a norm)."""
    requested, account = memory.history.allocations.requested_bytes, memory.account
    ids = np.unique(requested[account == ACCOUNTS.index(MemoryAccount.INPUTS)]).tolist()
    of_weights = [ACCOUNTS.index(name) for name in (MemoryAccount.COMMUNICATION, MemoryAccount.PARAMETERS)]
    weights = set(np.unique(requested[np.isin(account, of_weights)]).tolist())
    for element_bytes, id_bytes, id_size in product(_FLOAT_BYTES, _ID_BYTES, sorted(ids, reverse=True)):
        tokens = id_size // id_bytes
        vocabulary, rest = divmod(asked, element_bytes * max(tokens, 1))
        if not rest and vocabulary >= _FEWEST_WORDS and any(size * vocabulary in weights for size in weights):
            return LogitsShape(tokens=tokens, vocabulary=vocabulary, element_bytes=element_bytes)
    return None
