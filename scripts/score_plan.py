"""Write down how far plans lie from measured runs: planner/train/search/trust.json, which every plan quotes.

Run it after scripts/score_left_out.py or scripts/fit_memory.py. `redline plan validate` shows the whole tables.
"""

import json
from pathlib import Path

from redline.planner.validation.interval_trust import trust

FILE = Path(__file__).parent.parent / "src/redline/planner/train/search/trust.json"
HOW = (
    "Made by scripts/score_plan.py. `measured`: what the constants of a stack were fitted to, by type of GPU; models "
    "as layers/width/feed-forward/experts. `intervals`: eight of ten measured steps lie between these multiples of "
    "the predicted one, by what was left out of the fit with a run, stack, GPU, and whether the model has experts or "
    "adapters (unusual). `users`: the same of other people's runs, which no constant was fitted to. `errors` and "
    "`memory`: absolute errors, as shares, on runs left out of the fit."
)


def main() -> None:
    FILE.write_text(json.dumps({"how": HOW, **trust()}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
