"""Smallest fixes filled with what was seen: this optimizer, this loader, these cores."""

from dataclasses import replace

from redline.findings.evidence import Evidence
from redline.findings.rule import MatchTotals
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.timeline.host_evidence import LoaderFacts
from redline.timeline.timeline import Kind
from redline.trace import schema

# Of torch.optim, version 2.13.
HAVE_FUSED = frozenset({"Adagrad", "Adam", "AdamW", "SGD"})
HAVE_FOREACH = frozenset({"ASGD", "Adadelta", "Adafactor", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop"})


_FUSED = Evidence(
    "Add fused=True where {optimizer} is created, and keep its other arguments: {optimizer}(..., fused=True)."
)
_FOREACH = Evidence(
    "Add foreach=True where {optimizer} is created, and keep its other arguments: {optimizer}(..., foreach=True)."
)
_BY_HAND = Evidence(
    "Write the update of {optimizer} with torch._foreach_* operators, or compile it: "
    "step = torch.compile(optimizer.step)."
)


def optimizer_fix(totals: MatchTotals) -> Evidence:
    """For an optimizer that works on one parameter after the other."""
    kind = totals.names["optimizer"].removesuffix(".step")
    fix = _FUSED if kind in HAVE_FUSED else _FOREACH if kind in HAVE_FOREACH else _BY_HAND
    return replace(fix, values={"optimizer": kind})


MOST_WORKERS = 8  # of a loader: more rarely help, and each takes memory


def loader_names(analysis: RankAnalysis) -> dict[str, str]:
    """Names for a fix of the data loader; "" where one is not known."""
    evidence = analysis.timeline.evidence
    loader = evidence.facts.loaders[0] if len(evidence.facts.loaders) == 1 else None
    free = _free_cores(analysis)
    return {
        "use": "training" if is_training(analysis) else "inference",
        "target": "gpu" if analysis.on_gpu else "cpu",
        "dataset": loader.dataset if loader is not None else "",
        "workers": str(_more_workers(loader, free)) if loader is not None and free is not None else "",
        "free": str(free) if free is not None else "",
    }


def _free_cores(analysis: RankAnalysis) -> int | None:
    """For the workers of one rank, if all ranks are on this machine; None where its cores are not known.

    A process that is seen to leave its own core idle, as one does that waits for storage, leaves it to a worker.
    """
    evidence = analysis.timeline.evidence
    machine, steps = evidence.machine, evidence.steps
    known = [cores for cores in (machine.cores_allowed, machine.quota_cores) if cores]
    if not known:
        return None
    length_ns = int((steps.end_ns - steps.begin_ns).sum())
    used = min(int(steps.process_cpu_ns.sum()) / length_ns, 1.0) if length_ns else 1.0
    ranks = max(analysis.timeline.metadata.world_size, 1)
    return max(round(int(min(known)) // ranks - used), 0)


def _more_workers(loader: LoaderFacts, free: int) -> int:
    """Twice as many as there are, as far as there are cores; 0 where that is no more."""
    wanted = min(2 * loader.workers or MOST_WORKERS // 2, MOST_WORKERS, free)
    return wanted if wanted > loader.workers else 0


def loader_fix(totals: MatchTotals) -> Evidence | None:
    """None where neither the loader nor the machine is known: then the page has a pattern."""
    names = totals.names
    if names["free"] == "0" or names["workers"] == "0":
        return Evidence("No core is left for more workers here: make a sample cheaper, or store what was decoded once.")
    if not names["workers"]:
        return None
    values = {"dataset": names["dataset"], "workers": names["workers"]}
    if names["target"] == "gpu":
        return Evidence(
            "Load {dataset} in worker processes and keep the loader's other arguments: "
            "DataLoader(..., num_workers={workers}, persistent_workers=True, pin_memory=True).",
            values,
        )
    return Evidence(
        "Load {dataset} in worker processes and keep the loader's other arguments: "
        "DataLoader(..., num_workers={workers}, persistent_workers=True).",
        values,
    )


def is_training(analysis: RankAnalysis) -> bool:
    """A backward pass or an optimizer was recorded."""
    has_backward = bool((analysis.timeline.operators.forward_thread > 0).any())
    return has_backward or len(analysis.rows_named(schema.is_optimizer_step, Kind.ANNOTATION)) > 0
