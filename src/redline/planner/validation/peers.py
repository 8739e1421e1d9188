"""How other planners fared on the same published runs, each on the rows that it can express."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Errors as shares; None where the planner does not predict it."""

    name: str
    rows: int
    step_median: float | None = None
    step_p90: float | None = None
    memory_bias: float | None = None
    memory_p90: float | None = None
    choice_median: float | None = None
    choice_p90: float | None = None


# Run in August 2026 on dense rows in 16 bits without context or expert parallelism, those of nanotron at an MFU of 10 %
# or more; layouts among all measured ones of nanotron. llm-analysis d841e40 at half of the peak, which suits it best;
# Calculon caa4b11 in the better of its two modes of overlap; Megatron-LM's theoretical_memory_usage.py.
PEERS = (
    Peer(
        name="llm-analysis", rows=2794, step_median=0.46, step_p90=0.83, memory_bias=-0.42, memory_p90=0.55,
        choice_median=0.53, choice_p90=0.94,
    ),
    Peer(
        name="Calculon", rows=2428, step_median=0.32, step_p90=0.73, memory_bias=-0.41, memory_p90=0.57,
        choice_median=0.04, choice_p90=0.63,
    ),
    Peer(name="Megatron-LM", rows=1746, memory_bias=-0.38, memory_p90=0.56),
)  # fmt: skip
