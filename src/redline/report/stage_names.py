"""What a progress bar says of long work."""

from redline.progress import Stage
from redline.report.language import _, marked

_NAMES = {
    Stage.READ: marked("reading traces"),
    Stage.COMBINE: marked("combining ranks"),
    Stage.WRITE: marked("writing ranks"),
    Stage.CHECK: marked("checking what was written"),
    Stage.MEASURE: marked("measuring this machine"),
    Stage.COLLECTIVES: marked("measuring collectives"),
    Stage.SEARCH: marked("searching layouts"),
    Stage.VALIDATE: marked("predicting published runs"),
}


def stage_names() -> dict[Stage, str]:
    """In the language that is spoken now."""
    return {stage: _(name) for stage, name in _NAMES.items()}


def time_left() -> str:
    """With the time as minutes and seconds to put in."""
    return _("{time} left")
