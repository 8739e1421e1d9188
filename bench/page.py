"""The page of the documentation: what the bench is, and its newest scores."""

from collections.abc import Sequence

from bench.tables import CASE_HEADS, MISS_HEADS, TOTAL_HEADS, Scored, as_markdown, case_row, miss_rows, total_rows

_TEXT = """# The bench of causes

How often does `redline diagnose` name the cause? `bench/` holds labelled cases: jobs that run on a CPU, and timelines
of GPUs from the synthetic generator. Each has one planted cause, and a healthy twin that differs in that cause alone.

<!-- Written by `python -m bench --page docs/explanation/bench.md`; what is changed here by hand is lost. -->

## Scores

{totals}

Open cases were looked at while rules were made and mended: their scores say what the rules were taught. Cases set aside
were written from a list of causes alone, by somebody who does not know the rules, and scored once, when the rules were
done: that first score says what to expect of a job that nobody has seen.

- `set_aside`: when it was scored first, the cause came first in 55 of 84 cases (65 %) and among the first three in 61
  (73 %), and 21 of 81 healthy twins had a finding of 5 % or more (26 %). Rules were mended since by what it showed, so
  the score above is that of open cases.
- `set_aside_2`: written after that. When it was scored first, the cause came first in 28 of 40 cases (70 %), and 4 of
  40 healthy twins had a finding of 5 % or more (10 %). Names and causes of its cases were known while the last rules
  were written, the cases and their recordings were not. One rule was mended since by what it showed (RL-N23).
- `set_aside_3`: generation and diffusion, written without knowledge of the rules for them. Scored once: the cause came
  first in 5 of 6 cases (83 %), 1 of 6 healthy twins had a finding of 5 % or more, and all 5 bounds held. Absent is a
  stopping rule that decodes the whole text for every token; both twins are told of a cache that grows by `torch.cat`.

## How a case is scored

- **Named.** `causes.toml` lists for each cause the findings that name it, two or three at most. The first finding
  with such a code counts if it also says one of the label's words. Remarks do not count.
- **Healthy twin.** A finding that claims 5 % of the step or more there is an alarm.
- **Gain.** Both twins of a job run in turns without Redline; the gain is the share of the flawed step that the healthy
  twin saves, with a 95 % bootstrap interval over runs and steps. Of a timeline, whose steps are exact, the interval
  is over steps alone.
- **Bound.** What the finding can gain at most as the only fix. It holds if it is not below the interval of the gain.
- **Rank and pattern.** Of a case with several ranks: the first rank that the finding names, and in which steps it says
  that the cause shows.

The timelines show what their generator models, and no more: how NCCL behaves at scale is not in them.

## Run it

```
python -m bench --out FOLDER                     # all cases; goes on where it was stopped
python -m bench --out FOLDER --sample            # what CI runs
python -m bench --out FOLDER 'ddp_*' gpu_fp64    # some
python -m bench --out FOLDER --cases OTHERS      # cases of another folder, such as bench/set_aside_2
python -m bench --out FOLDER --page docs/explanation/bench.md
python -m bench --out FOLDER --rediagnose OTHER  # diagnose again what --out OTHER has recorded
python -m bench --out FOLDER --cases bench/beside_load --beside 3   # captured beside three busy processes
```

Run it on a quiet machine: step times of a loaded one say little. Cases of transformers, Accelerate and Lightning need
`REDLINE_FRAMEWORKS_PYTHON`, as `tests/e2e/frameworks.txt` says.

## Misses

{misses}

## Cases

{cases}
"""


def page(rows: Sequence[Scored]) -> str:
    """The page, in Markdown."""
    missed = miss_rows(rows)
    return _TEXT.format(
        totals=as_markdown(TOTAL_HEADS, total_rows(rows)),
        misses=as_markdown(MISS_HEADS, missed) if missed else "None.",
        cases=as_markdown(CASE_HEADS, [case_row(row) for row in rows]),
    )
