"""All causes of full memory that are looked for."""

from redline.ledger.memory.causes import (
    earlier_step,
    fragmentation,
    gradients_in_forward,
    growth,
    kept_activations,
    optimizer_temporaries,
    padding,
    replicated_states,
    uneven_ranks,
    unused_memory,
    whole_logits,
)
from redline.ledger.memory.causes.cause import FullMemory, MemoryCause

RULES = (
    growth.RULE,
    kept_activations.RULE,
    whole_logits.RULE,
    gradients_in_forward.RULE,
    optimizer_temporaries.RULE,
    fragmentation.RULE,
    uneven_ranks.RULE,
    replicated_states.RULE,
    earlier_step.RULE,
    padding.RULE,
    unused_memory.RULE,
)


def memory_causes(full: FullMemory) -> tuple[MemoryCause, ...]:
    """What grows comes first, since no size of memory is enough for it; then the one that saves most."""
    found = [cause for rule in RULES for cause in rule.find(full)]
    return tuple(sorted(found, key=lambda cause: (cause.code != growth.RULE.code, -cause.saves_bytes)))
