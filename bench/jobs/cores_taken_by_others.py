"""Other processes of the machine use all cores; in the twin the job has them for itself."""

import os
import subprocess
import sys

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(
    cause="machine/cores_taken_by_others",
    says=("other processes", "CPU time", "not running", "starved", "preempt", "contention"),
)
OTHER = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(20_000))"


def main(flawed: bool, steps: int) -> None:
    count = 2 * len(os.sched_getaffinity(0)) if flawed else 0
    others = [subprocess.Popen([sys.executable, "-I", "-S", "-c", OTHER]) for _ in range(count)]
    model = LM()
    optimizer, batch = adamw(model), tokens()
    for _ in range(steps):
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for other in others:
        other.kill()
        other.wait()


if __name__ == "__main__":
    main(*arguments())
