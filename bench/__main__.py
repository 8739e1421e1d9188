"""Run the bench of causes, and print how often the cause was named: python -m bench --out FOLDER [case ...]"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from bench.cases import HERE, SAMPLE, SET_ASIDE, Case, cases_in
from bench.page import page
from bench.results import Result, rediagnosed, run, stored
from bench.scoring import causes_of, score_of
from bench.tables import CASE_HEADS, MISS_HEADS, TOTAL_HEADS, Scored, as_text, case_row, miss_rows, total_rows

REPEATS = 3
Work = Callable[[Case, Path], Result]


def main(words: Sequence[str] | None = None) -> int:
    """Run what has not been run, and print all tables."""
    options = _options(words)
    try:
        names = [*options.names, *(SAMPLE if options.sample else ())]
        cases = cases_in(options.cases, names)
        if options.cases == HERE and not names:
            cases += [case for folder in SET_ASIDE for case in cases_in(folder)]
    except ValueError as error:
        print(f"python -m bench: {error}", file=sys.stderr)
        return 2
    if options.list:
        for case in cases:
            print(f"{case.name:34} {case.label.cause:44} {case.summary}")
        return 0
    work: Work = partial(run, repeats=options.repeats, beside=options.beside)
    if options.rediagnose is not None:
        work = partial(_again, options.rediagnose)
    rows = scored(cases, options.out, work, jobs=options.jobs, again=options.again)
    print(as_text(CASE_HEADS, [case_row(row) for row in rows]))
    print("\n" + as_text(TOTAL_HEADS, total_rows(rows)))
    missed = miss_rows(rows)
    if missed:
        print("\n" + as_text(MISS_HEADS, missed))
    if options.page:
        options.page.write_text(page(rows), encoding="utf-8")
    return 0


def scored(cases: Sequence[Case], out: Path, work: Work, *, jobs: int = 1, again: bool = False) -> list[Scored]:
    """Every case with its score, worked on or read from the folder."""
    known = {} if again else {case.path: stored(_place(case, out), case.name) for case in cases}
    left = [case for case in cases if known.get(case.path) is None]
    results = {path: result for path, result in known.items() if result is not None}
    for case, result in zip(left, _work_on(left, out, work, jobs), strict=True):
        print(f"{len(results) + 1} of {len(cases)}: {result.name} {result.trouble}".rstrip(), file=sys.stderr)
        results[case.path] = result
    return [_scored(case, results[case.path]) for case in cases]


def _place(case: Case, out: Path) -> Path:
    """Where its result is: a case set aside may have the name of an open one."""
    folder = out / case.group
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _work_on(cases: Sequence[Case], out: Path, work: Work, jobs: int) -> Iterator[Result]:
    places = [_place(case, out) for case in cases]
    if jobs == 1:
        yield from map(work, cases, places)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, cases, places)


def _again(recorded: Path, case: Case, place: Path) -> Result:
    return rediagnosed(case, recorded / case.group, place)


def _scored(case: Case, result: Result) -> Scored:
    causes = causes_of(HERE, case.folder)
    twins = result.twins
    score = None if result.trouble else score_of(case.label, twins["flawed"], twins["healthy"], result.gain, causes)
    return Scored(case=case, result=result, score=score)


def _folder(text: str) -> Path:
    return Path(text).resolve()


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="names of cases, or patterns such as 'ddp_*' (default: all)")
    parser.add_argument("--sample", action="store_true", help="the fixed sample that CI runs")
    parser.add_argument("--cases", type=_folder, default=HERE, metavar="FOLDER", help="folder with jobs and timelines")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), metavar="FOLDER", help="one JSON per case")
    parser.add_argument("--again", action="store_true", help="run cases again that have a result")
    parser.add_argument(
        "--rediagnose", type=_folder, metavar="FOLDER", help="run nothing: diagnose what this --out has recorded again"
    )
    parser.add_argument(
        "--beside", type=int, default=0, metavar="N", help="capture jobs beside so many processes that want a core each"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs of each twin of a job for its gain; 0: none")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="cases at once; their gains disturb each other"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page of the documentation too")
    parser.add_argument("--list", action="store_true", help="list the cases, and run none")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
