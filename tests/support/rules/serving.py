"""Steps of serving engines."""

from tests.support.events import Event, kernel, launch, region

DECODE = "execute_context_0(0)_generation_4(4)"
PREFILL = "execute_context_2(3000)_generation_0(0)"
MIXED = "step[MIXED bs=2]"


def serving(label: str, us: float, *, graph: bool = False) -> list[Event]:
    """A step of 1000 us with five kernels, 200 us apart, each begun as soon as it is launched."""
    events = [region(label, 0, 1000)]
    for place in range(5):
        at = 200 * place
        name = "cudaGraphLaunch" if graph and place == 2 else "cudaLaunchKernel"
        events += [launch(at, place + 1, name=name), kernel("attention", at + 5, us, correlation=place + 1)]
    return events
