"""What in a text tells a secret, or who ran a job and where: known shapes, paths, and words that look drawn by lot.

Kernel names must stay readable, so a word counts as drawn by lot only if it mixes capitals, small letters and digits
in one run without separators. A secret of hexadecimal digits alone is not told from a checksum.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from ipaddress import ip_address
from math import log2

from redline.artifacts.masking import masked

MARK = re.compile(r"<(?:host|user|folder|file|e-mail|address|secret)-[0-9a-f]{4,}>")
"""What stands where something was taken out."""


class Private(StrEnum):
    """Kinds of things that are taken out; the value is the word in a mark."""

    HOST = "host"
    USER = "user"
    FOLDER = "folder"
    FILE = "file"
    E_MAIL = "e-mail"
    ADDRESS = "address"
    SECRET = "secret"


Mark = Callable[[Private, str], str]  # the mark for this piece of text

# --- shapes -----------------------------------------------------------------------------------------------------------

_URL = re.compile(r"""\b\w{1,20}://[^\s/:@]{0,200}:[^\s/@]{1,200}@[^\s"'()\[\],;]+""")  # with a password: all of it
_CUT_TOKEN = re.compile(
    r"(?<![A-Za-z0-9-])(?:sk-|gh[opsur]_|github_pat_|glpat-|hf_|AKIA|ASIA|xox[a-z]-|AIza|eyJ)[\w.-]{0,200}?(?=\.\.\.$)"
)
_CUSTOMER = re.compile(
    r"""(?P<key>(?<![\w-])(?:[A-Za-z0-9]{1,60}[_-])*customer["']?\s{0,4}=\s{0,4})
    (?P<value>"[^"]*"|'[^']*'|[^\s,;&"'(){}\[\]]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_NAMED_USER = re.compile(r"(?P<key>(?<![A-Za-z0-9])(?:user|user[_-]?name|login)=)(?P<value>[\w.-]+)", re.IGNORECASE)
_NAMED_HOST = re.compile(
    r"(?P<key>(?<![A-Za-z0-9])(?:host|host[_-]?name|node[_-]?name)=)(?P<value>[\w.-]+)", re.IGNORECASE
)
_E_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}\b")
_INNER_HOST = re.compile(
    r"(?<![\w.-])(?:[A-Za-z0-9-]+\.)+(?:internal|intranet|corp|lan|local|localdomain|svc|home\.arpa)(?![\w-])"
)
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
_IPV6 = re.compile(
    r"(?<![\w:])(?:fe80|f[cd][0-9a-f]{2}|[23][0-9a-f]{3})(?::[0-9a-f]{0,4}){2,7}(?![\w:])", re.IGNORECASE
)
_HARDWARE_ADDRESS = re.compile(r"(?<![\w:])[0-9a-f]{2}(?::[0-9a-f]{2}){5}(?![\w:])", re.IGNORECASE)
_OF_NOBODY = frozenset({"0.0.0.0", "127.0.0.1", "255.255.255.255"})


def without_secrets(text: str, mark: Mark) -> str:
    """What is masked anywhere, and what would be too much there: customers, and words that look drawn by lot."""

    def secret(secret_text: re.Match[str] | str) -> str:
        return mark(Private.SECRET, secret_text if isinstance(secret_text, str) else secret_text[0])

    text = _CUT_TOKEN.sub(secret, masked(_URL.sub(secret, text), secret))
    text = _CUSTOMER.sub(lambda match: match["key"] + _unless_marked(match["value"], secret), text)
    return _WORD.sub(lambda match: secret(match) if is_drawn_by_lot(match[0]) else match[0], text)


def _unless_marked(value: str, secret: Callable[[str], str]) -> str:
    return value if MARK.fullmatch(value.strip("\"'")) else secret(value)


def without_people_and_machines(text: str, mark: Mark) -> str:
    text = _E_MAIL.sub(lambda match: mark(Private.E_MAIL, match[0]), text)
    for named, kind in ((_NAMED_USER, Private.USER), (_NAMED_HOST, Private.HOST)):
        text = named.sub(lambda match, kind=kind: match["key"] + mark(kind, match["value"].lower()), text)  # type: ignore[misc]
    text = _INNER_HOST.sub(lambda match: mark(Private.HOST, match[0].lower()), text)
    for shape in (_IPV4, _IPV6, _HARDWARE_ADDRESS):
        text = shape.sub(lambda match: mark(Private.ADDRESS, match[0]) if _is_address(match[0]) else match[0], text)
    return text


def _is_address(text: str) -> bool:
    if _HARDWARE_ADDRESS.fullmatch(text):
        return True
    try:
        return str(ip_address(text)) not in _OF_NOBODY
    except ValueError:
        return False


# --- paths ------------------------------------------------------------------------------------------------------------

_PART = r"[^\s/\\:;,\"'<>|*?()\[\]{}=&]+"
_ABSOLUTE = re.compile(
    rf"""
    ^(?:/|~[\w.-]*/|[A-Za-z]:[\\/]|\\\\)[^\n]*?\.pyx?(?=\(\d+\))      # a call as the profiler names it, blanks and all
    | \b(?:s3a?|gc?s|az|abfss?|wasbs?|(?:web)?hdfs|memory|file|ssh|sftp|nfs|oss|obs|dbfs):///?{_PART}(?:[/\\:]{_PART})*[/\\]?
    | (?<![\w.~<>/\\)\]-])(?:~[\w.-]*)?/(?!/){_PART}(?:/{_PART})+/?
    | (?<![\w.~<>/\\)\]-])~[\w.-]*/{_PART}/?
    | (?<![A-Za-z0-9])[A-Za-z]:[\\/](?:{_PART}[\\/])*{_PART}
    | (?<![\w\\])\\\\{_PART}\\(?:{_PART}\\)*{_PART}
    """,
    re.VERBOSE,
)
_IN_PACKAGES = re.compile(r"^.*/(?:site-packages|dist-packages)/(?=[^/])")
_IN_PYTHON = re.compile(r"^.*/lib(?:64)?/python3(?:\.\d+)?/(?=[^/])")
_HOME = re.compile(r"(?:^|[\s/\\])(?:home|[Uu]sers)[/\\]([^\s/\\:<>()\"']+)")


def without_paths(text: str, mark: Mark) -> str:
    """Paths of packages stay readable without where they are installed, of others only the name of the file."""
    return _ABSOLUTE.sub(lambda match: _shortened(match[0], mark), text)


def _shortened(path: str, mark: Mark) -> str:
    plain = path.replace("\\", "/")
    for installed in (_IN_PACKAGES, _IN_PYTHON):
        inside = installed.sub("", plain)
        if inside != plain:
            mark(Private.FOLDER, plain.removesuffix(inside))
            return inside
    folder, _, name = plain.rpartition("/")
    return f"{mark(Private.FOLDER, folder)}/{name}"


def owners(text: str) -> Iterator[str]:
    """Whose home folders a text names."""
    return (match[1] for match in _HOME.finditer(text))


# --- words drawn by lot -----------------------------------------------------------------------------------------------

_WORD = re.compile(r"(?<![\w+/-])[\w+/-]{20,}={0,2}", re.ASCII)
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_MANGLED = "_Z"  # how C++ compilers begin the names that linkers see
_LEAST_BITS = 3.8  # per character, of the characters' frequencies in the word itself
_LONGEST_PIECES = 2.6  # letters on average; the words and numbers that names are made of are longer
_FEWEST_PER_SEPARATOR = 8  # letters; names of kernels are of shorter parts


def is_drawn_by_lot(word: str) -> bool:
    """Whether a word of at least 20 letters is one that nobody would think of."""
    letters = re.sub(r"[^A-Za-z0-9]", "", word)
    mixed = all(re.search(some, letters) for some in ("[a-z]", "[A-Z]", "[0-9]"))
    if not mixed or word.startswith(_MANGLED) or len(letters) < _FEWEST_PER_SEPARATOR * (len(word) - len(letters)):
        return False
    return len(letters) <= _LONGEST_PIECES * len(_PIECE.findall(letters)) and _bits(letters) >= _LEAST_BITS


def _bits(word: str) -> float:
    """Entropy per character."""
    return -sum(count / len(word) * log2(count / len(word)) for count in Counter(word).values())
