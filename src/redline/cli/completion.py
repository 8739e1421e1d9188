"""`redline --completion SHELL`: the script with which a shell completes the words of a command.

It has every verb, option and known name in it, so that a shell needs no Python to complete one.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redline.cli.options import Verb, options_of
from redline.cli.output import point_to, show
from redline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from redline.cli.options import Option

SHELLS = {  # and where the shell looks for such scripts
    "bash": "~/.local/share/bash-completion/completions/redline",
    "zsh": "~/.zfunc/_redline",  # any folder of fpath
    "fish": "~/.config/fish/completions/redline.fish",
}
_FILES = ("FILE", "PATH", "PROFILE", "NAME|FILE", "RECORDING")
_OWN = {  # options of redline itself
    "--help": "list the verbs",
    "--version": "print the version",
    "--completion": "print the completion script of a shell",
}
_WIDEST = 72  # characters that a shell shows beside a word


@dataclass(frozen=True, kw_only=True)
class Completed:
    """One option of a command, or what the command acts on, and what may stand there."""

    names: tuple[str, ...]
    meaning: str
    takes_value: bool = False
    repeats: bool = False
    words: tuple[str, ...] = ()
    files: str = ""  # "file" or "folder"


def run(words: Sequence[str]) -> int:
    if len(words) != 1 or words[0] not in SHELLS:
        raise UsageError(f"--completion takes one of {', '.join(SHELLS)}, such as: redline --completion bash")
    shell = words[0]
    show(script_of(shell))
    if sys.stdout.isatty():
        point_to(f"redline --completion {shell} > {SHELLS[shell]}")
    return 0


def script_of(shell: str) -> str:
    lines = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()
    return "\n".join(lines) + "\n"


# --- what there is to complete ----------------------------------------------------------------------------------------


def _commands() -> dict[str, dict[str, str]]:
    """By the word before: the words that choose a command, and what each is for."""
    from redline.cli.verb_table import VERBS, verb_of

    kinds = {name: verb.kinds for name in VERBS if not isinstance(verb := verb_of(name), Verb)}
    return {"": VERBS, **{name: {kind: summary for kind, (summary, _) in of.items()} for name, of in kinds.items()}}


def _completed() -> dict[str, list[Completed]]:
    """Of each command, such as `plan train`."""
    from redline.cli.verb_table import declared_options

    told = {
        command: [
            Completed(names=("-h", "--help"), meaning="show the options"),
            *(_of_option(command, option) for option in options_of(declared)),
        ]
        for command, declared in declared_options().items()
    }
    told["run"].append(Completed(names=(), meaning="the script", takes_value=True, files="file"))
    return told


def _of_option(command: str, option: Option) -> Completed:
    metavar = option.metavar or ""
    known = tuple(_known_words(command, option))
    return Completed(
        names=option.names,
        meaning=_short(option.help),
        takes_value=option.metavar is not None,
        repeats=option.keywords.get("action") == "append",
        words=known,
        files="" if known else "folder" if metavar == "FOLDER" else "file" if metavar in _FILES else "",
    )


def _known_words(command: str, option: Option) -> Iterable[str]:
    from redline.capture.lever_kinds import KINDS
    from redline.cli import lake
    from redline.findings.pages import codes
    from redline.hardware.catalogue import machines
    from redline.model.huggingface import known_models
    from redline.replay.scenario_text import BEGINNINGS
    from redline.trials.lever_pages import short_name

    if command == "explain" and option.dest == "words":
        return [*codes(), *map(short_name, KINDS)]
    if (command == "hardware" and option.dest == "name") or (command.startswith("plan ") and option.dest == "machine"):
        return [machine.name for machine in machines()]
    if option.dest == "question":
        return lake.QUESTIONS
    if option.dest == "what_if":
        return BEGINNINGS
    if option.dest == "model" and command != "lake add":
        return known_models()
    choices: Iterable[str] = option.keywords.get("choices", ())
    return choices


def _short(text: str) -> str:
    """The first clause of a help, as plain text: shells show it in one line, and read some characters as their own."""
    plain = text.partition(";")[0].partition(" (default")[0]
    plain = "".join(character for character in plain.replace("'", "\u2019") if character not in '`"[]:$\\%')
    return plain if len(plain) <= _WIDEST else f"{plain[: _WIDEST - 3].rstrip()}..."


# --- bash -------------------------------------------------------------------------------------------------------------


def _bash() -> Iterator[str]:
    below = _commands()
    yield "_redline() {"
    yield "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}"
    yield "  local at=1 options='' words='' files=''"
    yield f"  case $command in {'|'.join(filter(None, below))})"
    yield '    [[ $COMP_CWORD -gt 2 ]] && command="$command ${COMP_WORDS[2]}"; at=2;; esac'
    yield "  if [[ $COMP_CWORD -le $at ]]; then"
    yield "    [[ $COMP_CWORD -eq 1 ]] && command=''"
    yield "    case $command in"
    for command, chosen in below.items():
        yield f"    {_in_bash(command)}) words='{' '.join(chosen if command else {**chosen, **_OWN})}';;"
    yield from ("    esac", "  else", "    case $command in")
    for command, completed in _completed().items():
        yield f"    {_in_bash(command)}) options='{' '.join(name for each in completed for name in each.names)}'"
        yield "      case $before in"
        for each in completed:
            if each.names and each.takes_value:
                yield f"      {'|'.join(each.names)}) options=''; {_values_in_bash(each)};;"
        yield f"      *) {'; '.join(_values_in_bash(each) for each in completed if not each.names) or ':'};;"
        yield "      esac;;"
    yield from ("    esac", "  fi", "  [[ $word == -* ]] && words=$options files=''")
    yield '  COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield '  [[ -n $files ]] && compopt -o filenames && COMPREPLY+=($(compgen $files -- "$word"))'
    yield "}"
    yield "complete -F _redline redline"


def _in_bash(command: str) -> str:
    return f"'{command}'" if " " in command or not command else command


def _values_in_bash(each: Completed) -> str:
    files = {"file": "-f", "folder": "-d", "": ""}[each.files]
    return f"words='{' '.join(each.words)}' files='{files}'"


# --- zsh --------------------------------------------------------------------------------------------------------------


def _zsh() -> Iterator[str]:
    below = _commands()
    yield from ("#compdef redline", "", "_redline() {", "  local command= at=2 verb=$words[2]")
    yield f"  [[ $verb == ({'|'.join(filter(None, below))}) ]] && (( CURRENT > 2 )) && at=3"
    yield from ("  if (( CURRENT <= at )); then", "    (( at == 3 )) && command=$verb", "    local -a chosen")
    yield "    case $command in"
    for command, chosen in below.items():
        named = chosen if command else {**chosen, **_OWN}
        listed = " ".join(f"'{name}:{_short(meaning)}'" for name, meaning in named.items())
        yield f"    ('{command}') chosen=({listed});;"
    yield from ("    esac", "    _describe -t commands command chosen")
    yield from ("    return", "  fi", '  command="${(j: :)words[2,$at]}"', "  shift $((at - 1)) words")
    yield from ("  (( CURRENT -= at - 1 ))", "  case $command in")
    for command, completed in _completed().items():
        yield f"  ('{command}') _arguments -S \\"
        for each in completed:
            yield f"    {_in_zsh(each)} \\"
        yield "    && return;;"
    yield from ("  esac", "}", "", '_redline "$@"')


def _in_zsh(each: Completed) -> str:
    stands = {"file": "_files", "folder": "_files -/", "": ""}[each.files] or f"({' '.join(each.words)})"
    value = f":value:{stands if each.words or each.files else ' '}" if each.takes_value else ""
    if not each.names:
        return f"'*{value}'"
    excluded = "'*'" if each.repeats else f"'({' '.join(each.names)})'"
    together = f"{{{','.join(each.names)}}}" if len(each.names) > 1 else each.names[0]
    return f"{excluded}{together}'[{each.meaning}]{value}'"


# --- fish -------------------------------------------------------------------------------------------------------------


def _fish() -> Iterator[str]:
    yield "complete -c redline -f"
    below = _commands()
    for option, meaning in _OWN.items():
        condition = f"not __fish_seen_subcommand_from {' '.join(below[''])}"
        yield f"complete -c redline -n '{condition}' -l {option[2:]} -d '{meaning}'"
    for command, chosen in below.items():
        seen = f"__fish_seen_subcommand_from {command}; and " if command else ""
        for name, meaning in chosen.items():
            condition = f"{seen}not __fish_seen_subcommand_from {' '.join(chosen)}"
            yield f"complete -c redline -n '{condition}' -a {name} -d '{_short(meaning)}'"
    for command, completed in _completed().items():
        condition = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.split())
        for each in completed:
            yield f"complete -c redline -n '{condition}' {_in_fish(each)}"


def _in_fish(each: Completed) -> str:
    named = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in each.names]
    if each.words:
        named.append(f"{'-x ' if each.names else ''}-a '{' '.join(each.words)}'")
    elif each.takes_value:
        named.append(("-r -F" if each.names else "-F") if each.files else "-x")
    return " ".join([*named, *([f"-d '{each.meaning}'"] if each.names else [])])
