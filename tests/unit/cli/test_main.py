"""How a command ends decides its exit code; what is wrong with it is said in one or two lines."""

from pathlib import Path

import pytest

import redline
from redline import cli
from redline.cli import main
from redline.cli.merge import MergeOptions
from redline.cli.options import Options, Verb
from redline.cli.verb_table import VERBS
from redline.errors import NotATraceError


class ActOptions(Options):
    """Act."""

    verb = "act"


def use_verb(monkeypatch: pytest.MonkeyPatch, outcome: int | BaseException) -> None:
    """Add a verb `act`, whose run has this outcome."""

    def run(_: ActOptions) -> int:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setitem(VERBS, "act", "act")
    monkeypatch.setattr(cli, "verb_of", lambda name: Verb(ActOptions, run))


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        (0, 0, ""),
        (1, 1, ""),
        (NotATraceError("a.json: not a trace"), 2, "redline: a.json: not a trace\n"),
        (KeyboardInterrupt(), 130, "redline: interrupted\n"),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    outcome: int | BaseException,
    code: int,
    said: str,
) -> None:
    use_verb(monkeypatch, outcome)
    assert main(["act"]) == code
    assert capsys.readouterr() == ("", said)


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The traceback is shown, but not with Python's exit code 1, which will mean a crossed threshold."""
    use_verb(monkeypatch, ZeroDivisionError())
    assert main(["act"]) == 2
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    assert "a bug in Redline" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspct"], "there is no verb 'inspct'; did you mean 'inspect'?"),
        (["xyz"], f"there is no verb 'xyz'; there are: {', '.join(VERBS)}"),
        (["-q"], "-q is not an option of redline itself; options follow the verb\nsee: redline --help"),
        (
            ["inspect"],
            "inspect: the following arguments are required: PATH\nsee: redline inspect --help",
        ),
        (
            ["inspect", "t", "--forc"],
            "inspect: unrecognized arguments: --forc\nsee: redline inspect --help",
        ),
        (
            ["inspect", "t", "--jobs", "0"],
            "inspect: argument --jobs: '0' is not a number of 1 or more\nsee: redline inspect --help",
        ),
        (
            ["merge", "t", "-o", "m", "--budget", "lots"],
            "merge: argument --budget: 'lots' is not a size; write a number and a unit, such as 200MB or 1.5GiB\n"
            "see: redline merge --help",
        ),
        (
            ["inspect", "t", "--step-regex", "("],
            "inspect: argument --step-regex: '(' is not a regular expression: "
            "missing ), unterminated subpattern at position 0\nsee: redline inspect --help",
        ),
        (
            ["run"],
            "run: which script? give it after the options, such as: redline run -- train.py --its-own args",
        ),
        (
            ["run", "-q", "-m"],
            "run: which script? give it after the options, such as: redline run -- train.py --its-own args",
        ),
        (
            ["run", "--no-python", "a.sh"],
            "run: --no-python of torchrun does not go with Redline: only Python programs can be watched",
        ),
        (
            ["run", "--run-path", "a.py"],
            "run: --run-path of torchrun does not go with Redline: give the script itself",
        ),
        (
            ["run", "--step", "a.py"],
            "run: unrecognized arguments: --step\nsee: redline run --help",
        ),
        (
            ["run", "--steps", "0", "a.py"],
            "run: argument --steps: '0' is not a number of 1 or more\nsee: redline run --help",
        ),
        (
            ["run", "--after", "-1", "a.py"],
            "run: argument --after: '-1' is not a number of 0 or more\nsee: redline run --help",
        ),
        (
            ["run", "--when", "loss>3", "a.py"],
            "run: argument --when: 'loss>3' is no condition; write 'step_time>1.5*median' or 'step_time>200ms', "
            "or of a serving engine 'running>8' or 'waiting>0'\n"
            "see: redline run --help",
        ),
        (
            ["run", "--budget", "150%", "a.py"],
            "run: argument --budget: '150%' is not a share, such as 1% or 0.01\nsee: redline run --help",
        ),
        (
            ["run", "--budget", "much", "a.py"],
            "run: argument --budget: 'much' is not a share, such as 1% or 0.01\nsee: redline run --help",
        ),
        (
            ["run", "--stall-after", "soon", "a.py"],
            "run: argument --stall-after: 'soon' is not a number of seconds\nsee: redline run --help",
        ),
        (
            ["run", "--capture-signal", "PING", "a.py"],
            "run: argument --capture-signal: 'PING' is no signal; USR1 and USR2 are\nsee: redline run --help",
        ),
        (
            ["run", "--max-disk", "lots", "a.py"],
            "run: argument --max-disk: 'lots' is not a size; write a number and a unit, such as 200MB or 1.5GiB\n"
            "see: redline run --help",
        ),
        (
            ["run", "--keep-traces", "2", "a.py"],
            "run: --keep-traces deletes traces that were digested; add --digests",
        ),
        (
            ["inspect", "t", "--jobs", "7" * 5_000],
            f"inspect: argument --jobs: '{'7' * 99}... is too large a number\nsee: redline inspect --help",
        ),
        (
            ["inspect", "t", "--jobs", "x" * 5_000],
            f"inspect: argument --jobs: '{'x' * 99}... is not a number of 1 or more\nsee: redline inspect --help",
        ),
        (
            ["run", "--watch-only", "--every", "100", "a.py"],
            "run: --watch-only captures nothing, so there is nothing to time, digest, diagnose or report",
        ),
        (
            ["diagnose", "a.json", "-o", "a.html", "-o", "a.md"],
            "diagnose: -o was given twice; this verb writes one file at a time\nsee: redline diagnose --help",
        ),
        (
            ["merge", "a.json", "-o", "b.json", "-o", "c.json"],
            "merge: -o was given twice; this verb writes one file at a time\nsee: redline merge --help",
        ),
    ],
)
def test_usage_errors_say_what_to_do(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", f"redline: {message}\n")


def test_a_file_in_place_of_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    trace.touch()
    assert main([str(trace)]) == 2
    assert capsys.readouterr().err == f"redline: '{trace}' is not a verb; did you mean: redline inspect {trace}\n"
    (tmp_path / "run.json").touch()
    assert main([str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == f"redline: '{tmp_path}' is not a verb; did you mean: redline diagnose {tmp_path}\n"


def test_nothing_to_do_shows_help_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("usage: redline VERB")


def test_options_may_stand_between_paths() -> None:
    options = MergeOptions.parsed(["a", "-o", "m", "b", "--budget", "1 MiB"])
    assert (options.paths, options.output, options.budget) == (("a", "b"), "m", 2**20)


def test_the_package_has_only_its_verbs() -> None:
    with pytest.raises(AttributeError, match="module 'redline' has no attribute 'diagnoze'"):
        _ = redline.diagnoze  # type: ignore[attr-defined]
