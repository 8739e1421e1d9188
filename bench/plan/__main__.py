"""Renew what every plan quotes of its errors, and what `redline plan validate` prints: `accuracy.json`.

    python -m bench.plan

Run it after constants were fitted and scored: `fit_step`, `fit_memory` and `fit_serving` write constants of plans,
`score_left_out` and `score_serving_left_out` the errors of fits without a group of runs, from which this is made.
`score_measured` writes a section of its own. Then renew the page: `python -m scripts.draw_accuracy`.
"""

from typing import Any

import msgspec

from bench.plan.accuracy_file import renew
from bench.plan.interval_trust import trust
from bench.plan.serving_intervals import serving_trust
from bench.plan.validate import validate

TRAINING = (
    "Made by `python -m bench.plan`. `measured`: what the constants of a stack were fitted to, by type of GPU; models "
    "as layers/width/feed-forward/experts. `intervals`: eight of ten measured steps lie between these multiples of "
    "the predicted one, by what was left out of the fit with a run, stack, GPU, and whether the model has experts or "
    "adapters (unusual). `users`: the same of other people's runs, which no constant was fitted to. `errors` and "
    "`memory`: absolute errors, as shares, on runs left out of the fit."
)
SERVING = (
    "Made by `python -m bench.plan`. `figures`: by what was left out of the fit, engine and figure. 80 % of measured "
    "figures lie between `low` and `high` times the predicted one; `rows`, `groups`, `median` and `p90` are of "
    "absolute errors of the runs of `engine`. `first_token_repeats`: what one run says of another like it."
)


def main() -> None:
    renew(training={"how": TRAINING, **trust()}, serving={"how": SERVING, **serving_trust()})
    tables: dict[str, Any] = msgspec.to_builtins(validate())
    renew(validation={"how": "Made by `python -m bench.plan`.", **tables})


if __name__ == "__main__":
    main()
