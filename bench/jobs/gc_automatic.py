"""Each step makes many records on a large heap, so automatic collections scan it all; the twin freezes it."""

import gc
from collections import deque

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="host/automatic_garbage_collection", says=("garbage", "gc."), pattern="some steps")


def main(flawed: bool, steps: int) -> None:
    samples = [{"id": n, "tags": [n]} for n in range(150_000)]
    model = LM()
    optimizer, batch = adamw(model), tokens()
    recent: deque[list[list[int]]] = deque(maxlen=3)
    if not flawed:
        gc.collect()
        gc.freeze()
        gc.disable()
    for _ in range(steps):
        recent.append([[n] for n in range(25_000)])
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert samples


if __name__ == "__main__":
    main(*arguments())
