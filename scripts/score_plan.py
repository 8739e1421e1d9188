"""Write down how far plans lie from measured runs: planner/train/search/trust.json, which every plan quotes.

Run it after scripts/fit_step.py or scripts/fit_memory.py. `redline plan validate` shows the whole tables.
"""

import json
from pathlib import Path

from redline.planner.validation.interval_trust import held_out, measured_machines, usual_spread

FILE = Path(__file__).parent.parent / "src/redline/planner/train/search/trust.json"
HOW = (
    "Made by scripts/score_plan.py: absolute errors, as shares, on runs with odd ids, which no constant was fitted to; "
    "under `all`, runs of all software predicted as usual software. Between the multiples of `usual_spread` of what is "
    "predicted for usual software lie eight of ten measured steps of all software, of runs with even ids. "
    "Such runs were on `machines`."
)


def main() -> None:
    found = {
        "how": HOW,
        "machines": measured_machines(),
        "usual_spread": usual_spread(),
        "held_out": held_out(),
    }
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    main()
