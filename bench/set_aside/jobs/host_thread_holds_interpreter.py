"""A monitoring thread counts words in pure Python during training and holds the interpreter lock; the twin counts once, before it."""

import threading
from collections import Counter

from bench.label import Label
from bench.set_aside.common import Decoder, arguments, begin, train_text

LABEL = Label(cause="host/interpreter_held", says=("GIL", "interpreter", "thread"))
REPORT = "loss accuracy step lines of the log that nobody reads " * 240


def count_words() -> Counter[str]:
    """A few milliseconds of pure Python."""
    found: Counter[str] = Counter()
    for word in REPORT.split():
        found["".join(reversed(word)).upper()] += 1
        found[word.replace("o", "0")] += 1
    return found


def main(flawed: bool, steps: int) -> None:
    begin()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            for _ in range(4):
                count_words()

    count_words()
    watcher = threading.Thread(target=watch, daemon=True)
    if flawed:
        watcher.start()
    train_text(Decoder(layers=3), steps)
    done.set()
    if flawed:
        watcher.join()


if __name__ == "__main__":
    main(*arguments())
