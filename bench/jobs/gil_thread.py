"""A background thread computes statistics in pure Python and holds the interpreter; the twin has no such thread."""

import threading

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="host/thread_holds_the_gil", says=("GIL", "interpreter", "background thread", "another thread"))


def statistics(stop: threading.Event) -> None:
    """Count words for a dashboard, again and again."""
    while not stop.wait(0.01):
        sum(n * n % 7 for n in range(200_000))


def main(flawed: bool, steps: int) -> None:
    stop = threading.Event()
    if flawed:
        threading.Thread(target=statistics, args=(stop,), daemon=True).start()
    model = LM()
    optimizer, batch = adamw(model), tokens()
    for _ in range(steps):
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    stop.set()


if __name__ == "__main__":
    main(*arguments())
