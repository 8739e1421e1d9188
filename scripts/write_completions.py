"""Write the scripts with which shells complete the words of a command: run it after a change of options.

`python -m scripts.write_completions` writes `src/redline/cli/completions`, one file per shell, from the parsers of the
command line, so that none of them needs Python to complete. Those for bash and zsh are made by shtab; the version that
is pinned knows no fish, whose scripts are plain lists.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import shtab

from redline.cli import VERBS
from redline.cli.lake import LAKE, ask
from redline.cli.plan import PLAN
from redline.hardware.catalogue import machines
from redline.launch.lever_kinds import KINDS
from redline.model.known import known_models
from redline.replay.scenario_text import BEGINNINGS
from redline.report.explain.text import sections
from redline.trials.lever_pages import short_name

FOLDER = Path(__file__).parents[1] / "src" / "redline" / "cli" / "completions"
SHELLS = ("bash", "zsh", "fish")
_FILES = {"FILE": shtab.FILE, "PATH": shtab.FILE, "PROFILE": shtab.FILE, "NAME|FILE": shtab.FILE, "FOLDER": shtab.DIR}
_OF_KINDS = {each.verb: each for each in (LAKE, PLAN)}
_WIDEST = 72  # letters that a shell shows beside a word

Parsers = dict[str, argparse.ArgumentParser]


def whole_parser() -> argparse.ArgumentParser:
    """The command line as one parser, with every verb in it."""
    root = argparse.ArgumentParser(prog="redline", add_help=False)
    root.add_argument("--help", action="store_true", help="list the verbs")
    root.add_argument("--version", action="store_true", help="print the version")
    root.add_argument("--completion", choices=SHELLS, help="print the completion script of a shell")
    verbs = root.add_subparsers(dest="verb")
    for name, verb in VERBS.items():
        parser = verbs.add_parser(name, help=verb.summary, description=verb.summary)
        if name in _OF_KINDS:
            kinds = parser.add_subparsers(dest="kind")
            for kind, about in _OF_KINDS[name].kinds.items():
                _completed(kinds.add_parser(kind, help=about.summary), f"{name} {kind}")
        else:
            _completed(parser, name)
    return root


def _completed(parser: argparse.ArgumentParser, name: str) -> None:
    """With the arguments of a verb or a kind of one, and what may stand for each."""
    verb, _, kind = name.partition(" ")
    if kind:
        for action in _OF_KINDS[verb].build_parser(kind)._actions[1:]:
            parser._add_action(action)
    else:
        VERBS[name].add_arguments(parser)
    if name == "run":
        parser.add_argument("command", nargs="*", metavar="PATH", help="the script, and its own arguments")
    for action in parser._actions:
        names = _names_for(name, action)
        if names:
            action.choices = names
        elif action.metavar in _FILES:
            action.complete = _FILES[action.metavar]  # type: ignore[attr-defined]
        action.help = _short(action.help or "", parser)
    parser.usage = None


def _names_for(name: str, action: argparse.Action) -> list[str]:
    if name == "explain" and action.dest == "words":
        return [*(code for codes in sections().values() for code in codes), *map(short_name, KINDS)]
    if (name == "hardware" and action.dest == "name") or (name.startswith("plan ") and action.dest == "machine"):
        return [machine.name for machine in machines()]
    if name.startswith("lake "):
        return list(ask.QUESTIONS) if action.dest == "question" else []
    if action.dest == "what_if":
        return list(BEGINNINGS)
    return list(known_models()) if action.dest == "model" else []


def _short(text: str, parser: argparse.ArgumentParser) -> str:
    """The first clause of a help, as plain text: shells show it in one line, and read some letters as their own."""
    plain = (text % {"default": "", "prog": parser.prog}).partition(";")[0].partition(" (default")[0]
    plain = "".join(letter for letter in plain.replace("'", "\u2019") if letter not in '`"[]:$\\%')
    return plain if len(plain) <= _WIDEST else f"{plain[: _WIDEST - 3].rstrip()}..."


def completion(shell: str) -> str:
    """The script of one shell."""
    parser = whole_parser()
    if shell != "fish":
        return shtab.complete(parser, shell).rstrip() + "\n"
    lines = ["# Written by scripts/write_completions.py of Redline.", "complete -c redline -f", *_fish(parser)]
    return "\n".join(lines) + "\n"


# --- fish -------------------------------------------------------------------------------------------------------------


def _fish(parser: argparse.ArgumentParser, seen: tuple[str, ...] = ()) -> Iterator[str]:
    """The words of a parser, where the words before it were seen and none of its own verbs."""
    below = _below(parser)
    conditions = [f"__fish_seen_subcommand_from {word}" for word in seen]
    if below:
        conditions.append(f"not __fish_seen_subcommand_from {' '.join(below)}")
    start = f"complete -c redline -n '{'; and '.join(conditions)}'"
    helps = {choice.dest: choice.help or "" for choice in _subparsers(parser)._choices_actions} if below else {}
    for name, one in below.items():
        yield f"{start} -a {name} -d '{_short(helps[name], one)}'"
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            yield f"{start} {_fish_words(action)}"
    for name, one in below.items():
        yield from _fish(one, (*seen, name))


def _fish_words(action: argparse.Action) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings]
    if action.choices:
        value = f"{'-x ' if names else ''}-a '{' '.join(map(str, action.choices))}'"
    elif hasattr(action, "complete"):
        value = "-r -F" if names else "-F"
    else:
        value = "" if action.nargs == 0 else "-x"
    said = f"-d '{action.help}'" if names else ""
    return " ".join(part for part in (*names, value, said) if part)


def _subparsers(parser: argparse.ArgumentParser) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    return next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def _below(parser: argparse.ArgumentParser) -> Parsers:
    has_any = any(isinstance(action, argparse._SubParsersAction) for action in parser._actions)
    return dict(_subparsers(parser).choices) if has_any else {}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for shell in SHELLS:
        (FOLDER / f"redline.{shell}").write_text(completion(shell), encoding="utf-8")
