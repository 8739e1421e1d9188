"""How each number of a training plan is defined, in a sentence or two."""

from collections.abc import Sequence

from redline.report.language import _, marked

DEFINITIONS: Sequence[tuple[str, str]] = (
    (
        marked("80 % interval"),
        marked(
            "80 % of the published runs of this kind were measured inside it. It holds for models, machines and stacks "
            "like theirs."
        ),
    ),
    (
        marked("step"),
        marked(
            "Forward, backward and optimizer of one global batch, on the slowest stage. Its parts do not "
            "overlap: communication hidden behind compute is in none of them."
        ),
    ),
    (
        marked("MFU"),
        marked(
            "Model FLOPs of the batch, without recomputation, over what the GPUs could do in that time at "
            "their published peak."
        ),
    ),
    (
        marked("OOM probability"),
        marked(
            "Share of runs with this predicted memory that ran out of memory. Layouts above the accepted "
            "probability are not proposed."
        ),
    ),
    (
        marked("compute / communication"),
        marked(
            "Time of the compute that could hide an exchange, over the time of the exchange alone. From 1 on "
            "it can be hidden; how much is hidden depends on the software."
        ),
    ),
    (
        marked("frontier"),
        marked("Pareto frontier of step time and memory."),
    ),
    (
        marked("goodput"),
        marked(
            "Share of time that makes progress: not spent on checkpoints, restarts, or work lost to "
            "failures. Each case uses its best checkpoint interval."
        ),
    ),
)


def definitions() -> list[tuple[str, str]]:
    """Terms and what they mean, in the language that is spoken now."""
    return [(_(term), _(text)) for term, text in DEFINITIONS]
