"""Which account of the ledger of bytes each part of a plan's predicted memory is in."""

from collections.abc import Mapping

from redline.ledger.memory.memory_accounts import MemoryAccount

ACCOUNT_OF_PART: Mapping[str, MemoryAccount] = {
    "weights_bytes": MemoryAccount.PARAMETERS,
    "gradients_bytes": MemoryAccount.GRADIENTS,
    "optimizer_bytes": MemoryAccount.OPTIMIZER_STATES,
    "activations_bytes": MemoryAccount.ACTIVATIONS,
    "head_bytes": MemoryAccount.LOGITS,
    "gathers_bytes": MemoryAccount.COMMUNICATION,
    "temporaries_bytes": MemoryAccount.TEMPORARIES,
    "allocator_bytes": MemoryAccount.CACHED,
}
"""By the fields of `MemoryUse`. Accounts that are not here (inputs, unknown) are measured and never predicted."""
OUTSIDE_PART = "communicators_bytes"
"""Of no account: it is outside of torch's allocator, with the CUDA context."""


def planned_accounts(parts: Mapping[str, float]) -> dict[MemoryAccount, int]:
    """Whole bytes by account, of parts by the names of `MemoryUse`."""
    return {account: round(parts[part]) for part, account in ACCOUNT_OF_PART.items()}
