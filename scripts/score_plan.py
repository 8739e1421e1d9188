"""Write down how far plans lie from measured runs: cost/train/trust.json, which every plan quotes.

Run it after scripts/fit_step.py or scripts/fit_memory.py. `redline plan validate` shows the whole tables.
"""

import json
from pathlib import Path

from redline.cost.truth.trust import held_out

FILE = Path(__file__).parent.parent / "src/redline/cost/train/trust.json"
HOW = (
    "Made by scripts/score_plan.py: absolute errors, as shares, on runs with odd ids, which no constant was fitted to."
)


def main() -> None:
    FILE.write_text(json.dumps({"how": HOW, "held_out": held_out()}, indent=1) + "\n", encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    main()
