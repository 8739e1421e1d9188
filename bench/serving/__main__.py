"""Score the causes of serving: python -m bench.serving --out FOLDER [--cases FILE] [case ...]

It needs a Python with vLLM and Redline, named by REDLINE_VLLM_PYTHON. A side takes a minute or two; what is in the
folder already is not run again.
"""

import argparse
from pathlib import Path

from bench.serving.run_case import run_case
from bench.serving.serving_cases import OPEN, cases_in
from bench.serving.serving_score import score_of, summary
from redline.capture.process import has_bf16_units


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.serving", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where runs and results are kept")
    parser.add_argument("--cases", type=Path, default=OPEN, help="the file of cases")
    parser.add_argument("names", nargs="*", metavar="CASE", help="only these")
    options = parser.parse_args()
    scores = []
    for case in cases_in(options.cases):
        if options.names and case.name not in options.names:
            continue
        if case.needs_bf16 and not has_bf16_units():
            print(f"{case.name:26} not scored: this CPU has no instructions for bfloat16", flush=True)
        else:
            sides = run_case(case, options.out, options.out / "models")
            scores.append(score_of(case, sides["flawed"], sides["healthy"]))
            print(scores[-1].line(), flush=True)
    print(summary(scores))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
