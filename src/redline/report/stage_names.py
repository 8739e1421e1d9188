"""What a progress bar says of long work."""

from redline.progress import ProgressStage
from redline.report.language import _, marked

_NAMES = {
    ProgressStage.READ: marked("reading traces"),
    ProgressStage.COMBINE: marked("combining ranks"),
    ProgressStage.WRITE: marked("writing ranks"),
    ProgressStage.CHECK: marked("checking what was written"),
    ProgressStage.MEASURE: marked("measuring this machine"),
    ProgressStage.COLLECTIVES: marked("measuring collectives"),
    ProgressStage.SEARCH: marked("searching layouts"),
    ProgressStage.TIME: marked("timing pairs"),
}


def stage_names() -> dict[ProgressStage, str]:
    """In the language that is spoken now."""
    return {stage: _(name) for stage, name in _NAMES.items()}


def time_left() -> str:
    """With the time as minutes and seconds to put in."""
    return _("{time} left")
