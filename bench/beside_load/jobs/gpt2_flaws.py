"""The tutorial's GPT-2 tokenises in the training process whenever a text is read; the twin has texts that are ready."""

import sys

from bench.common import Label, arguments
from examples import gpt2_flaws

LABEL = Label(
    cause="input/loaded_in_training_process", says=("num_workers", "DataLoader", "data loader", "training process")
)


def main(flawed: bool, steps: int) -> None:
    if not flawed:
        ready = [gpt2_flaws.Sentences(8)[index] for index in range(8)]
        gpt2_flaws.Sentences.__getitem__ = lambda _, index: ready[index % 8]  # type: ignore[method-assign]
    sys.argv[1:] = ["--steps", str(steps)]
    gpt2_flaws.main()


if __name__ == "__main__":
    main(*arguments())
