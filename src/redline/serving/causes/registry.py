"""All causes that are looked for."""

from redline.serving.causes import (
    beyond_server,
    engine_python,
    few_threads,
    full_cache,
    low_concurrency,
    rejected_drafts,
    sampling,
    sequence_limit,
    shared_prefixes,
    stalled_decodes,
    text_handling,
    token_limit,
    wide_weights,
)
from redline.serving.causes.cause import Served, ServingCause

LEAST_SHARE = 0.05  # of a latency: less is not worth naming
RULES = (
    sequence_limit.RULE,
    full_cache.RULE,
    stalled_decodes.RULE,
    engine_python.RULE,
    sampling.RULE,
    text_handling.RULE,
    token_limit.RULE,
    shared_prefixes.RULE,
    low_concurrency.RULE,
    few_threads.RULE,
    rejected_drafts.RULE,
    wide_weights.RULE,
    beyond_server.RULE,
)


def causes_of(served: Served) -> tuple[ServingCause, ...]:
    """The one that costs the slowest requests most comes first."""
    found = [cause for rule in RULES for cause in rule.find(served) if cause.share >= LEAST_SHARE]
    return tuple(sorted(found, key=lambda cause: (-cause.end_to_end_share, -cause.share)))
