"""Every step writes the weights of each layer to a log as text; the twin writes one line every hundred steps."""

import tempfile

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="host/logging_every_step", says=("log", "print", "every step"))


def main(flawed: bool, steps: int) -> None:
    model = LM()
    optimizer, batch = adamw(model), tokens()
    with tempfile.TemporaryFile("w") as log:
        for step in range(steps):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if flawed:
                for name, weight in model.named_parameters():
                    log.write(f"{step} {name} {weight.detach()}\n")
            elif step % 100 == 99:
                log.write(f"{step} {loss.item()}\n")


if __name__ == "__main__":
    main(*arguments())
