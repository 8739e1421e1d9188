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
            "Forward, backward and optimizer of one global batch, on the slowest stage. Its parts are exclusive: "
            "traffic that hides behind compute is in none of them."
        ),
    ),
    (
        marked("MFU"),
        marked(
            "FLOPs that the model needs for the batch, nothing computed twice, over what the GPUs could do in that "
            "time at their published peak."
        ),
    ),
    (
        marked("OOM probability"),
        marked(
            "How often runs for which this much memory was predicted died of it. A layout with more than the accepted "
            "probability is not proposed."
        ),
    ),
    (
        marked("compute per traffic"),
        marked(
            "How long the compute takes that could hide one exchange, over how long the exchange takes alone. From 1 "
            "on it can be hidden; how much of it is, depends on the software."
        ),
    ),
    (
        marked("frontier"),
        marked("Pareto frontier of step time and memory."),
    ),
    (
        marked("goodput"),
        marked(
            "The share of time that is progress: not spent on checkpoints, on restarts, or on work that a failure "
            "lost. Each case has its best time between checkpoints."
        ),
    ),
)


def definitions() -> list[tuple[str, str]]:
    """Terms and what they mean, in the language that is spoken now."""
    return [(_(term), _(text)) for term, text in DEFINITIONS]
