"""Messages name parameters as Python does; the command line spells them as its options."""

import pytest

from redline.report.option_names import as_options


@pytest.mark.parametrize(
    ("python", "typed"),
    [
        ("use `force=True` to replace it", "use --force to replace it"),
        ("with `machine=NAME`, or `machine='H100-SXM5'`", "with --machine NAME, or --machine H100-SXM5"),
        ("raise `budget_bytes=...`.", "raise --budget."),
        ("`step_regex=...` is for traces", "--step-regex is for traces"),
        (
            "`redline hardware` lists them; see lr=0.1 and `x=1 2`",
            "`redline hardware` lists them; see lr=0.1 and `x=1 2`",
        ),
    ],
)
def test_a_parameter_becomes_its_option(python: str, typed: str) -> None:
    assert as_options(python) == typed
