"""gc.collect() is called after every step, on a large heap; the twin never calls it."""

import gc

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="host/gc_collect_every_step", says=("garbage", "gc."))


def main(flawed: bool, steps: int) -> None:
    samples = [{"id": n, "tags": [n]} for n in range(150_000)]
    model = LM()
    optimizer, batch = adamw(model), tokens()
    for _ in range(steps):
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if flawed:
            gc.collect()
    assert samples


if __name__ == "__main__":
    main(*arguments())
