"""A thread turns a long history into JSON over and over beside training; the twin does it once a minute."""

import json
import threading

from bench.set_aside_2.common import Encoder, Label, arguments, begin, patches, train

LABEL = Label(
    cause="host/thread_holds_the_gil",
    says=("thread", "GIL", "interpreter"),
)


class Dashboard(threading.Thread):
    """Keeps a text of all that was measured."""

    def __init__(self, pause_s: float) -> None:
        super().__init__(daemon=True)
        self.pause_s, self.ended, self.text = pause_s, threading.Event(), ""
        self.history = [{"step": step, "loss": 1.0 / (step + 1), "rate": 1e-4} for step in range(40_000)]

    def run(self) -> None:
        while not self.ended.wait(self.pause_s):
            self.text = json.dumps(self.history, indent=1)


def main(flawed: bool, steps: int) -> None:
    begin()
    dashboard = Dashboard(0.001 if flawed else 60.0)
    dashboard.start()
    data = patches(8, 32, 256)
    train(Encoder(256, layers=2), steps, lambda _: data)
    dashboard.ended.set()
    dashboard.join()


if __name__ == "__main__":
    main(*arguments())
