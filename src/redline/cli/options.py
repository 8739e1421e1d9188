"""Options of a verb, declared once: a typed class whose fields make the parser, the help and the completion.

What several verbs take is a class that theirs inherit, and a heading of their help:

    class Reading(Options):
        '''How files are read'''
        jobs: int | None = value("N", "reader processes", read=positive)

    class InspectOptions(Reading):
        '''Show what traces contain.'''
        verbose: bool = flag("more detail", "-v")

gives `--jobs N` under "How files are read", and `-v, --verbose`. A field is named like the parameter of the verb's
function that it sets, so that `arguments_for` can hand all of them over.
"""

from __future__ import annotations

import argparse
from dataclasses import field, fields, replace
from inspect import get_annotations, signature
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, dataclass_transform

from redline.cli.help_text import example, prose, section, show_help, usage
from redline.cli.output import complain_at_length
from redline.errors import ParameterError, UnexpectedError, UsageError
from redline.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_LAST_HEADING = "Output"  # many verbs share it


@dataclass(frozen=True, kw_only=True)
class Option:
    """One argument of a verb, as the parser and the help want it."""

    names: tuple[str, ...]  # none where its place tells it
    metavar: str | None  # none where it takes no value
    help: str
    keywords: Mapping[str, Any]  # of argparse
    dest: str = ""  # the field that it fills
    key: str = ""  # in the field, which then is a mapping
    heading: str = ""
    either: str = ""  # of options with the same word here, one may be given
    is_required: bool = False

    @property
    def words(self) -> str:
        """As the parser calls it: `-o/--output`, or `PATH`."""
        return "/".join(self.names) or str(self.metavar)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Options:
    """What a verb was asked for."""

    verb: ClassVar[str] = ""  # and its kind
    usage: ClassVar[str] = ""  # where it is not what the options say
    about: ClassVar[str] = ""  # where there is more to say than the doc string
    example: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], dict[str, Any]]:
        """The words that are options, and fields that are made of the others."""
        return words, {}

    @classmethod
    def missing(cls, given: Mapping[str, Any]) -> list[str]:
        """The options that are needed and were not given."""
        alternatives: dict[str, list[Option]] = {}
        for option in options_of(cls):
            if option.is_required:
                alternatives.setdefault(option.either or option.words, []).append(option)
        return [
            " or ".join(option.words for option in options)
            for options in alternatives.values()
            if not any(given.get(option.dest) for option in options)
        ]

    @classmethod
    def parsed(cls, words: Sequence[str]) -> Self:
        """From the words of a command line. UsageError for what it does not know; SystemExit after its help."""
        ours, others = cls.split(list(words))
        given = vars(parser_of(cls).parse_intermixed_args(ours))
        if missing := cls.missing({**given, **others}):
            raise _usage_error(cls.verb, f"the following arguments are required: {', '.join(missing)}")
        known = {name: tuple(it) if isinstance(it, list) else it for name, it in given.items()}
        return cls(**known, **others)


# --- declaring --------------------------------------------------------------------------------------------------------


def flag(help: str, *names: str, either: str = "") -> Any:  # noqa: A002 (the word of argparse)
    """True where it is given."""
    return _declared(Option(names=names, metavar=None, help=help, keywords={"action": "store_true"}, either=either))


def value(
    metavar: str,
    help: str,  # noqa: A002
    *names: str,
    default: Any = None,
    read: Callable[[str], Any] | None = None,
    choices: Sequence[str] | None = None,
    also: Mapping[str, str] | None = None,
    either: str = "",
    required: bool = False,
    **keywords: Any,
) -> Any:
    """One value. `also` are flags that stand for one each."""
    keywords |= {name: it for name, it in (("type", read), ("choices", choices)) if it is not None}
    option = Option(names=names, metavar=metavar, help=help, keywords=keywords, either=either, is_required=required)
    return _declared(option, default, also or {})


def values(metavar: str, help: str, *names: str, **keywords: Any) -> Any:  # noqa: A002
    """As many as it is given times."""
    return _declared(Option(names=names, metavar=metavar, help=help, keywords={"action": "append", **keywords}), ())


def words(metavar: str, help: str, nargs: str = "+") -> Any:  # noqa: A002
    """What the verb acts on: told by its place. The parser leaves it to `missing` whether there are enough."""
    keywords = {"nargs": "?" if nargs == "?" else "*"}
    option = Option(names=(), metavar=metavar, help=help, keywords=keywords, is_required=nargs == "+")
    return field(default=None if nargs == "?" else (), metadata={"option": option, "has_place": True})


def flags(chosen: Mapping[str, str]) -> Any:
    """A flag for each of several names; the field has the names that were given."""
    return field(default=(), metadata={"flags": chosen})


def entries(**declared: Any) -> Any:
    """Options that fill a mapping together."""
    return field(default_factory=dict, metadata={"entries": declared})


def _declared(option: Option, default: Any = False, also: Mapping[str, str] | None = None) -> Any:
    metadata = {"option": option, "also": also or {}}
    if option.is_required and not option.either:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


class Once(argparse.Action):
    """Refuses a second file, which would silently replace the first."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if hasattr(namespace, self.dest):
            parser.error(f"{option_string} was given twice; this verb writes one file at a time")
        setattr(namespace, self.dest, values)


class _Entry(argparse.Action):
    """Puts a value into the mapping of a field; a flag is 1, and 0 where it begins with --no-."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        value: Any = float(not str(option_string).startswith("--no-")) if self.nargs == 0 else values
        setattr(namespace, self.dest, {**getattr(namespace, self.dest, {}), self.const: value})


# --- what was declared ------------------------------------------------------------------------------------------------


def options_of(declared: type[Options]) -> Iterator[Option]:
    """Its own before those that it inherits; one that it declares anew stays where it was."""
    metadata = {each.name: each.metadata for each in fields(declared)}  # type: ignore[arg-type]
    first = {name: owner for owner in declared.__mro__ for name in get_annotations(owner)}
    for owner in declared.__mro__:
        heading = "" if owner is declared else str(owner.__doc__).partition("\n")[0].rstrip(".")
        for name in get_annotations(owner):
            if name in metadata and first[name] is owner:
                for option in _of_field(name, metadata[name]):
                    yield replace(option, dest=name, heading=heading)


def _of_field(name: str, metadata: Mapping[str, Any]) -> Iterator[Option]:
    for key, meaning in metadata.get("flags", {}).items():
        keywords = {"action": "append_const", "const": key}
        yield Option(names=(_dashed(key),), metavar=None, help=meaning, keywords=keywords)
    for key, entry in metadata.get("entries", {}).items():
        option = _named(key, entry.metadata["option"])
        keywords = {**option.keywords, "action": _Entry, "const": key}
        yield replace(option, key=key, keywords=keywords if option.metavar else {**keywords, "nargs": 0})
    if "option" in metadata:
        also = metadata.get("also", {})
        option = metadata["option"] if "has_place" in metadata else _named(name, metadata["option"])
        either = option.either or (name if also else "")
        for shorthand, meant in also.items():
            keywords = {"action": "store_const", "const": meant}
            meaning = f"the same as {_dashed(name)} {meant}"
            yield Option(names=(shorthand,), metavar=None, help=meaning, keywords=keywords, either=either)
        yield replace(option, either=either)


def _named(name: str, option: Option) -> Option:
    is_named = any(known.startswith("--") for known in option.names)
    return option if is_named else replace(option, names=(*option.names, _dashed(name)))


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def parser_of(declared: type[Options]) -> Parser:
    """Fields of what was not given are left out: the class has the defaults."""
    parser = Parser(declared)
    groups: dict[str, argparse._ActionsContainer] = {}
    for option in options_of(declared):
        if option.either and option.either not in groups:
            groups[option.either] = parser.add_mutually_exclusive_group()
        container = groups.get(option.either, parser)
        keywords: dict[str, Any] = {"dest": option.dest, "metavar": option.metavar, **option.keywords}
        if not option.names:
            del keywords["dest"]
        if option.metavar is None:
            del keywords["metavar"]
        container.add_argument(*(option.names or (option.dest,)), **keywords)
    return parser


class Parser(argparse.ArgumentParser):
    """Complains in UsageErrors, and takes options in full only."""

    def __init__(self, declared: type[Options]) -> None:
        name = f"redline {declared.verb}"
        super().__init__(prog=name, usage=name, allow_abbrev=False, argument_default=argparse.SUPPRESS)
        self._declared = declared

    def print_help(self, file: object = None) -> None:
        show_help(help_of(self._declared))  # argparse itself swallows failures to write

    def error(self, message: str) -> NoReturn:
        raise _usage_error(self._declared.verb, message)


def _usage_error(verb: str, message: str) -> UsageError:
    return UsageError(f"{verb}: {message}\nsee: redline {verb} --help")


# --- help -------------------------------------------------------------------------------------------------------------


def help_of(declared: type[Options]) -> Iterator[str]:
    """The lines of the help of one verb, or of one kind of it."""
    options = list(options_of(declared))
    yield from usage(f"{declared.verb} {declared.usage or _usage(options)}")
    yield from ("", *prose(declared.about or str(declared.__doc__)))
    headings = list(dict.fromkeys(option.heading for option in options if option.names))
    headings.sort(key=lambda heading: heading == _LAST_HEADING)
    rows = [(option, (_with_metavar(option), option.help)) for option in options]
    width = max(len(name) for _option, (name, _meaning) in rows)
    yield from section("", [row for option, row in rows if not option.names], width)
    for heading in headings:
        named = [row for option, row in rows if option.names and option.heading == heading]
        yield from section(heading or "Options", named, width)
    yield from example(declared.example)


def _with_metavar(option: Option) -> str:
    return ", ".join(f"{name} {option.metavar or ''}".rstrip() for name in option.names or ("",)).lstrip()


def _usage(options: Sequence[Option]) -> str:
    needed = [f"{option.names[0]} {option.metavar}" for option in options if option.is_required and option.names]
    shown = {"?": "[{}]", "*": "[{} ...]"}
    acted = [
        f"{option.metavar} ..." if option.is_required else shown[option.keywords["nargs"]].format(option.metavar)
        for option in options
        if not option.names
    ]
    return " ".join([*needed, "[options]", *acted])


# --- running ----------------------------------------------------------------------------------------------------------


class Verb:
    """One command: its options, and what runs it."""

    def __init__(self, options: type[Options], run: Callable[[Any], int]) -> None:
        self.options = options
        self.run = run

    def __call__(self, words: Sequence[str]) -> int:
        try:
            options = self.options.parsed(words)
        except SystemExit as stop:  # help was shown; complaints are UsageErrors
            return int(stop.code or 0)
        try:
            return self.run(options)
        except ParameterError as error:
            raise UsageError(f"{options.verb}: {self._flag_of(error.parameter)}{error.problem}") from error
        except UnexpectedError as error:
            if getattr(options, "verbose", False):
                complain_at_length(error.traceback)
            raise

    def _flag_of(self, parameter: str) -> str:
        declared = options_of(self.options)
        return next(
            (option.names[-1] for option in declared if (option.key or option.dest) == parameter), _dashed(parameter)
        )


class VerbKinds:
    """Several commands under one verb, as `redline plan train`: the first word says which."""

    def __init__(self, verb: str, about: str, kinds: Mapping[str, tuple[str, Verb]], example: str) -> None:
        self.verb = verb
        self.about = about
        self.kinds = kinds  # each with its line in the list
        self.example = example

    def __call__(self, words: Sequence[str]) -> int:
        kind = words[0] if words else ""
        if kind in self.kinds:
            return self.kinds[kind][1](words[1:])
        if kind in ("-h", "--help"):
            show_help(help_of_kinds(self))
            return 0
        raise UsageError(self._unknown(kind))

    def _unknown(self, word: str) -> str:
        import difflib

        if not word or word.startswith("-"):
            which = ", ".join(f"redline {self.verb} {kind}" for kind in self.kinds)
            return f"{self.verb}: say first which kind: {which}"
        near = difflib.get_close_matches(word, self.kinds, n=1)
        hint = f"did you mean: redline {self.verb} {near[0]}" if near else f"there are: {', '.join(self.kinds)}"
        return f"{self.verb}: there is no kind {word!r}; {hint}"


def help_of_kinds(kinds: VerbKinds) -> Iterator[str]:
    """Of a verb whose first word says which options there are."""
    yield from usage(f"{kinds.verb} {{{','.join(kinds.kinds)}}} [options]")
    yield from ("", *prose(kinds.about))
    rows = [(kind, summary) for kind, (summary, _verb) in kinds.kinds.items()]
    yield from section(f"Kinds (see redline {kinds.verb} KIND --help)", rows, max(map(len, kinds.kinds)))
    yield from example(kinds.example)


def arguments_for(function: Callable[..., Any], options: Options) -> dict[str, Any]:
    """The fields that are called like parameters of a function, to call it with."""
    return {name: getattr(options, name) for name in signature(function).parameters if hasattr(options, name)}
