"""Steps that load."""

from tests.support.events import Event, region
from tests.support.rules.matching import launched, step

WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


ALONE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def loading_for(us: float, loader: str) -> list[Event]:
    """A step of 1000 us that begins in the data loader and then runs one kernel of 500 us."""
    return [step(0, 0, 1000), region(loader, 0, us), *launched("gemm", us + 2, 500, 1, at=us)]
