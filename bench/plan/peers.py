"""What another planner would predict for the published runs, where its method is short enough to be stated here."""

import numpy as np

from bench.plan.rows import Mask, Numbers
from bench.plan.training import Runs
from redline.plan.train.training_choices import Recompute

# llm-analysis 0.2.2 leaves its efficiency to the user; its README tells to begin with a half, as Megatron-LM reaches.
EFFICIENCY = 0.5


def llm_analysis_logs(runs: Runs) -> Numbers:
    """Logarithm of measured over predicted, as llm-analysis 0.2.2 (`LLMAnalysis.training`) predicts the step; NaN where
    it cannot express the run. Rebuilt from its source: FLOPs over what all devices do at half of their peak.
    """
    model, sequence = runs.model, np.asarray(runs.batch.sequence)
    tokens = sequence * runs.batch.sequences
    hidden = np.asarray(model.hidden)
    grouped = np.asarray(model.kv_heads) / model.heads
    attention = 4 * tokens * sequence * hidden
    layer = tokens * hidden**2 * (4 + 4 * grouped + 16) + attention
    forward = model.layers * layer + 2 * tokens * hidden * model.vocab
    full, some = (np.asarray(runs.layout.recompute) == each for each in (Recompute.FULL, Recompute.SELECTIVE))
    again = full * forward + some * attention * model.layers
    told_s = (3 * forward + again) / (runs.devices * runs.bare.peak_flops_per_s * EFFICIENCY)
    return np.where(_expressible(runs), np.log(runs.measured_s / told_s), np.nan)


def _expressible(runs: Runs) -> Mask:
    """Dense models in 16 bits with plain attention, every weight trained; no context parallelism."""
    latent = np.asarray(runs.model.kv_rank) > 0
    mask: Mask = ~(runs.sparse | runs.narrow | runs.adapters | latent) & (np.asarray(runs.layout.cp) == 1)
    return mask
