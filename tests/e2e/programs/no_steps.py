"""A job whose steps nobody recognises: no optimizer of torch, no module. The first argument says what happens to it.

What is to happen while a window is open happens when the profiler is on; without Redline it never is, and the job then
ends after as many seconds as the second argument says.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import torch
import torch.distributed
from descent import Descent

PAUSE_S = 0.005  # of each round: what runs beside the job has the processor meanwhile
WEIGHTS = [torch.randn(64, 64) for _ in range(4)]


def is_recorded() -> bool:
    return torch._C._autograd._profiler_enabled()


def train(until_s: float, after_each: Callable[[], None] = lambda: None) -> None:
    weights = [weight.clone().requires_grad_() for weight in WEIGHTS]
    while time.monotonic() < until_s:
        x = torch.randn(64, 64)
        y = x
        for weight in weights:
            y = torch.tanh(y @ weight)
        gradients = torch.autograd.grad((y - x).pow(2).mean(), weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.data -= 0.01 * gradient
        time.sleep(PAUSE_S)
        after_each()


def optimize(steps: int) -> None:
    """Steps that are recognised."""
    model = torch.nn.Linear(8, 8)
    optimizer = Descent(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        time.sleep(0.02)


def when_recorded(act: Callable[[], object]) -> Callable[[], None]:
    def look() -> None:
        if is_recorded():
            act()

    return look


def fail() -> None:
    raise ValueError("of the script")


def in_thread(end_s: float) -> None:
    thread = threading.Thread(target=train, args=(end_s,))
    thread.start()
    thread.join()


def in_two_threads(end_s: float) -> None:
    thread = threading.Thread(target=train, args=(end_s,))
    thread.start()
    train(end_s)
    thread.join()


def optimizer_in_thread(end_s: float) -> None:
    """Steps begin in another thread while a timed window is open in this one."""
    while time.monotonic() < end_s and not is_recorded():
        train(time.monotonic() + 0.02)
    thread = threading.Thread(target=optimize, args=(60,))
    thread.start()
    while thread.is_alive():
        train(time.monotonic() + 0.02)


def alarms(end_s: float) -> None:
    """A handler that raises, all the time: each exception is seen once, as it was raised."""

    def ring(*_: object) -> None:
        raise TimeoutError("ring", 3)

    def work() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while True:
            torch.tanh(WEIGHTS[0] @ WEIGHTS[1])

    signal.signal(signal.SIGALRM, ring)
    while time.monotonic() < end_s:
        try:
            work()
        except TimeoutError as error:
            if error.args != ("ring", 3):
                print(error.args)


def forks(end_s: float) -> None:
    while time.monotonic() < end_s:
        child = os.fork()
        if not child:
            train(time.monotonic() + 0.02)
            os._exit(0)
        os.waitpid(child, 0)
        train(time.monotonic() + 0.02)


@torch.no_grad()
def inference(end_s: float) -> None:
    while time.monotonic() < end_s:
        torch.tanh(WEIGHTS[0] @ WEIGHTS[1])


def own_profiler(end_s: float) -> None:
    with torch.profiler.profile() as profiler:
        train(end_s)
    print(len(profiler.events() or ()) > 10)


def two_ranks(end_s: float) -> None:
    torch.distributed.init_process_group("gloo")
    goes_on = torch.ones(1)
    while goes_on.item():
        train(time.monotonic() + 0.02)
        goes_on.fill_(float(time.monotonic() < end_s))
        torch.distributed.broadcast(goes_on, 0)
    torch.distributed.destroy_process_group()


def main() -> None:
    what, seconds = sys.argv[1], float(sys.argv[2])
    end_s = time.monotonic() + seconds
    torch.manual_seed(0)
    if what == "handled":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    at_window: dict[str, Callable[[], object]] = {
        "plain": lambda: None,
        "exit": lambda: sys.exit(7),
        "raise": fail,
        "leave": lambda: os._exit(5),
        "term": lambda: os.kill(os.getpid(), signal.SIGTERM),
        "handled": lambda: os.kill(os.getpid(), signal.SIGTERM),
    }
    others = (in_thread, in_two_threads, optimizer_in_thread, alarms, forks, inference, own_profiler, two_ranks)
    if what in at_window:
        train(end_s, when_recorded(at_window[what]))
    else:
        {job.__name__: job for job in others}[what](end_s)
    print("done")


if __name__ == "__main__":
    main()
