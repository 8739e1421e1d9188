"""Decide what in a text looks like a secret, and put a mask in its place: tokens of known shape, passwords, keys.

A secret is told by its own shape, or by the name before it. It cannot be told where neither says so: `-p hunter2`,
a password as a plain argument, a random word without a name. Everything that is recorded or shown goes through here.
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache

TYPE_CHECKING = False


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Replace = Callable[[str], str]

MASK = "***"

# Nothing is looked at more closely in a text without any of these.
HINTS = (
    "pass", "pwd", "secret", "token", "key", "credential", "auth", "signature", "sig=", "cookie", "bearer", "jwt", "://",
    "eyj", "sk-", "pk-", "rk-", "k_live_", "k_test_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat", "glpat-",
    "hf_", "akia", "asia", "abia", "acca", "xox", "aiza", "ya29", "npm_", "pypi-", "dckr_pat", "nvapi-",
)  # fmt: skip

# Repetitions are bounded: a name of a megabyte must not take an hour.
_SHAPES = r"""
    -----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY-----.*?(?:-----END[A-Z ]*-----|$)
    | (?<![\w-])eyJ[\w-]{6,4000}\.[\w-]{6,4000}(?:\.[\w-]*)?                     # JSON web token
    | (?<=\b[Bb]earer\ )[\w.~+/-]{6,}=*
    | (?<=[Aa]uthorization:\ [Bb]asic\ )[\w+/-]{6,}=*
    | (?<![A-Za-z0-9-])(?:
        (?:sk|pk|rk)-(?!learn)(?=[\w-]{0,200}\d)[\w-]{10,400}                    # OpenAI, Anthropic and others
        | (?:sk|pk|rk)_(?:live|test)_\w{10,400}                                  # Stripe
        | gh[opsur]_[A-Za-z0-9]{16,} | github_pat_\w{16,400} | glpat-[\w-]{12,400}
        | hf_(?=[a-z]{0,60}[A-Z0-9])[A-Za-z0-9]{16,}
        | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}
        | xox[a-z]-[\w-]{8,400} | AIza[\w-]{30,400} | ya29\.[\w-]{10,400}
        | npm_[A-Za-z0-9]{30,} | pypi-[\w-]{30,400} | dckr_pat_[\w-]{16,400} | nvapi-[\w-]{16,400}
      )
    """
_URL_PASSWORD = r"(?P<before>\b[A-Za-z][\w+.-]{1,20}://[^\s/:@]{0,200}:)(?P<value>[^\s/@]{1,200})(?=@)"
_URL_USER = r"(?P<before>\bhttps?://)(?P<value>[^\s/:@]{1,200})(?=@)"
_QUOTED = r""""[^"]{0,4000}"|'[^']{0,4000}'"""
# Of a name that `_sureness` knows; other names must not take up the text that follows them.
_END = r"[\w.-]{0,200}?(?:pass\w{0,6}|pwd|secret|token|key|key.?id|credentials?|auth|sig|signature|cookie|pat|jwt)"
_FLAG = rf"""(?P<name>(?<![\w-])--?{_END})(?P<between>=(?!=)|["']?,?\s{{1,4}}(?!["']?-))(?P<value>{_QUOTED}|\S+)"""
# In front of a message, `/etc/passwd:` is a path.
_ASSIGNED = rf"""
    (?P<name>(?<![\w.-])(?<!/etc/){_END})(?P<between>["']?\s{{0,4}}(?:=(?!=)|:(?![:/]))\s{{0,4}})
    (?P<value>{_QUOTED}|\$\{{\w+\}}|[^\s,;&"'(){{}}\[\]]+)
    """


@cache
def _compiled() -> tuple[re.Pattern[str], tuple[re.Pattern[str], ...], tuple[re.Pattern[str], ...]]:
    """Shapes, parts of URLs, and values with a name. Every verb imports this module, and few texts ask for them."""
    flag, assigned = re.compile(_FLAG, re.IGNORECASE), re.compile(_ASSIGNED, re.VERBOSE | re.IGNORECASE)
    return (
        re.compile(_SHAPES, re.VERBOSE | re.DOTALL),
        (re.compile(_URL_PASSWORD), re.compile(_URL_USER)),
        (flag, assigned),
    )


_WORD_ASSIGNED = re.compile(r"(?P<name>[+~-]{0,2}[A-Za-z_][\w.-]{0,200})(?P<between>=(?!=))(?P<value>.+)", re.DOTALL)
_WORD_FLAG = re.compile(r"--?[A-Za-z][\w.-]{0,200}")

# --- names ------------------------------------------------------------------------------------------------------------

_WORDS_OF_NAME = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")
_CERTAIN = ("password", "passwd", "passphrase", "passcode", "apikey")
_CERTAIN_KEYS = ("api", "secret", "access", "private", "account", "auth", "encryption", "signing")
_LIKELY = ("token", "secret", "credential", "credentials", "jwt", "pwd")
_POSSIBLE = ("key", "auth", "sig", "signature", "cookie", "pass", "pat", "token")
# What stands before `token` where it is a piece of text or a number of them.
_OF_TEXT = {
    "bos", "cls", "cur", "current", "decode", "end", "eos", "eot", "first", "generated", "image", "input", "last",
    "mask", "max", "min", "new", "next", "num", "output", "pad", "per", "prompt", "sep", "special", "start", "stop",
    "text", "unk", "video",
}  # fmt: skip
_CERTAIN_SURE, _LIKELY_SURE, _POSSIBLE_SURE = 3, 2, 1


def _sureness(name: str) -> int:
    """How sure it is that what follows a name is a secret; 0 where nothing says so."""
    words = [word.lower() for word in _WORDS_OF_NAME.findall(name)]
    if words[-1:] == ["id"] and words[-3:-1] == ["access", "key"]:
        return _CERTAIN_SURE
    last = words[-1] if words else ""
    before = words[-2] if len(words) > 1 else ""
    if last.endswith(_CERTAIN) or (last == "key" and before in _CERTAIN_KEYS):
        return _CERTAIN_SURE
    if last in _LIKELY and not (last == "token" and before in _OF_TEXT):
        return _LIKELY_SURE
    return _POSSIBLE_SURE if last in _POSSIBLE else 0


def may_name_secret(name: str) -> bool:
    return bool(_sureness(name))


# --- values -----------------------------------------------------------------------------------------------------------

_SAYS_NOTHING = re.compile(r"true|false|none|null|yes|no|\$\w+|\$\{.*|%\w|\*{3,}.*|<.*>|", re.IGNORECASE | re.DOTALL)
_NUMBER_OR_PATH = re.compile(r"[\d.,+-]{1,12}(?:e[+-]?\d{1,3})?[%kKMGTB]?|[~.]{0,2}/.*", re.DOTALL)
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_FEWEST_RANDOM = 12  # letters
_LONGEST_PIECES = 2.6  # letters on average; the words and numbers that names are made of are longer


def looks_random(value: str) -> bool:
    letters = re.sub(r"%[0-9A-Fa-f]{2}|[^A-Za-z0-9]", "", value)
    mixed = re.search("[A-Za-z]", letters) and re.search("[0-9]", letters)
    return bool(mixed) and _FEWEST_RANDOM <= len(letters) <= _LONGEST_PIECES * len(_PIECE.findall(letters))


def is_secret(name: str, value: str) -> bool:
    sureness = _sureness(name)
    if not sureness or _SAYS_NOTHING.fullmatch(value):
        return False
    if sureness == _LIKELY_SURE:
        return not _NUMBER_OR_PATH.fullmatch(value)
    return sureness == _CERTAIN_SURE or looks_random(value)


# --- texts ------------------------------------------------------------------------------------------------------------


def may_hold_secret(text: str) -> bool:
    lower = text.lower()
    return any(hint in lower for hint in HINTS)


def masked(text: str, replace: Replace = lambda _: MASK) -> str:
    """The text with each secret replaced, by the mask if nothing else is asked for."""
    if not may_hold_secret(text):
        return text
    shapes, in_urls, named = _compiled()
    text = shapes.sub(lambda match: replace(match[0]), text)
    for shape in in_urls:
        text = shape.sub(lambda match: match["before"] + _unless_masked(match["value"], replace), text)
    for shape in named:
        text = shape.sub(lambda match: _assigned(match, replace), text)
    return text


def _unless_masked(value: str, replace: Replace) -> str:
    return value if _SAYS_NOTHING.fullmatch(value) else replace(value)


def _assigned(match: re.Match[str], replace: Replace) -> str:
    name, between, value = match["name"], match["between"], match["value"]
    quote = value[0] if value[0] in "\"'" and value[-1] == value[0] and len(value) > 1 else ""
    inner = value.strip(quote) if quote else value
    if not is_secret(name, inner):
        return match[0]
    if between.strip() == ":" and _sureness(name) < _CERTAIN_SURE and not looks_random(inner):
        return match[0]  # as in prose: "token: the"
    return f"{name}{between}{quote}{replace(inner)}{quote}"


def masked_texts(texts: Iterable[str]) -> list[str]:
    """Mask many texts: quick where there is nothing to mask."""
    known = list(texts)
    whole = "\n".join(known).lower()
    hints = [hint for hint in HINTS if hint in whole]
    if not hints:
        return known
    return [masked(text) if any(hint in text.lower() for hint in hints) else text for text in known]


def masked_text(words: Sequence[str]) -> list[str]:
    """A command line, word by word: the value of an option may be the word after it."""
    masked_words: list[str] = []
    name = ""
    for word in words:
        follows = bool(name) and not word.startswith("-") and is_secret(name, word)
        masked_words.append(MASK if follows else _masked_word(word))
        name = word if _WORD_FLAG.fullmatch(word) else ""
    return masked_words


def _masked_word(word: str) -> str:
    assigned = _WORD_ASSIGNED.fullmatch(word)
    if assigned and is_secret(assigned["name"], assigned["value"]):
        return f"{assigned['name']}={MASK}"
    return masked(word)


if TYPE_CHECKING:
    from typing import Any

_HINTS = tuple(hint.encode() for hint in HINTS)
_DIGITS = b"0123456789"
_LOWER = bytes(range(256)).lower()
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(?P<names>\s*:)?', re.DOTALL)
_WORDS_OUTSIDE = re.compile(r"(?!true|false|null|nan|infinity|e[+-]?\d)[A-Za-z_]{2,}", re.IGNORECASE)
_LONGEST_LINE_BYTES = 1 << 24


def masked_value(value: Any, name: str = "") -> Any:
    """A decoded value; `name` is what it is called. A list of texts is taken for a command line."""
    if isinstance(value, str):
        return MASK if is_secret(name, value) else masked(value)
    if isinstance(value, dict):
        return {masked(str(key)): masked_value(member, str(key)) for key, member in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(item, str) for item in value):
            return type(value)(masked_text(value))
        return type(value)(masked_value(item, name) for item in value)
    return value


class JsonMasker:
    """Masks JSON that is handed over in pieces, one line after the other. What holds no secret stays as it was."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, piece: bytes) -> bytes:
        """All whole lines so far; the last one waits for its end."""
        text = self._rest + piece
        end = text.rfind(b"\n") + 1
        if not end and len(text) > _LONGEST_LINE_BYTES:
            end = len(text)
        self._rest = text[end:]
        return _masked_lines(text[:end])

    def end(self) -> bytes:
        rest, self._rest = self._rest, b""
        return _masked_lines(rest)


def _masked_lines(text: bytes) -> bytes:
    hints = _hints_in(text)
    lower = text.lower() if hints else b""
    suspects = sorted({start for hint in hints for start in _suspect_lines(text, lower, hint)})
    parts: list[bytes] = []
    done = 0
    for start in suspects:
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        parts += (text[done:start], _masked_line(text[start:end]))
        done = end
    return b"".join((*parts, text[done:])) if parts else text


def _hints_in(text: bytes) -> list[bytes]:
    """Those that may be there. Without digits most lines of a trace are alike, so only a few have to be searched."""
    alike = b"\n".join(set(text.translate(_LOWER, _DIGITS).split(b"\n")))
    return [hint for hint in _HINTS if hint.translate(None, _DIGITS) in alike]


def _suspect_lines(text: bytes, lower: bytes, hint: bytes) -> set[int]:
    """Where lines begin in which a string that holds the hint may be a secret, or the name of one."""
    starts = set()
    at = lower.find(hint)
    while at >= 0:
        begin = text.rfind(b'"', 0, at) + 1
        end = text.find(b'"', at)
        end = len(text) if end < 0 else end
        if text[begin - 2 : begin - 1] == b"\\" or _is_suspect(text[begin:end]):
            starts.add(lower.rfind(b"\n", 0, at) + 1)
        at = lower.find(hint, max(end, at + 1))
    return starts


@lru_cache(maxsize=1 << 14)
def _is_suspect(content: bytes) -> bool:
    """True of text between two quotes; a quote inside of a string is written with a backslash before it."""
    text = content.decode("utf-8", "surrogateescape")
    return text.endswith("\\") or "\n" in text or may_name_secret(text) or masked(text) != text


def _masked_line(line: bytes) -> bytes:
    text = line.decode("utf-8", "surrogateescape")
    if _WORDS_OUTSIDE.search(_STRING.sub("", text)):  # quotes in names that the profiler did not escape
        return masked(text).encode("utf-8", "surrogateescape")
    name = ""
    parts: list[str] = []
    done = 0
    for match in _STRING.finditer(text):
        if match["names"]:
            parts += (text[done : match.start()], _masked_string("", match[0][: -len(match["names"])]), match["names"])
            name = match[0][1:].partition('"')[0]
        else:
            parts += (text[done : match.start()], _masked_string(name, match[0]))
            name = ""
        done = match.end()
    return "".join((*parts, text[done:])).encode("utf-8", "surrogateescape")


@lru_cache(maxsize=1 << 14)
def _masked_string(name: str, quoted: str) -> str:
    try:
        value = json.loads(quoted, strict=False)
    except ValueError:  # not JSON, but nearly; a reader may make something of it
        return f'"{masked(quoted[1:-1])}"'
    clean = masked_value(value, name)
    return quoted if clean == value else json.dumps(clean)
