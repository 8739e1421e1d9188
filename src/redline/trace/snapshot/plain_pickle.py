"""Unpickle what is made of dicts, lists, strings and numbers, and nothing else: no instruction here can call anything.

Python's own unpickler is not used: a memo index may make it take gigabytes, and keys of a dict may make it hash for
hours. Dicts are handed to the caller as soon as they are complete, so that a million of them never exist at once.
"""

import gc
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]

MOST_OPEN = 100  # containers inside of containers
MOST_OBJECTS = 30_000_000  # kept at a time: about a gigabyte
_WINDOW_BYTES = 1 << 20  # between two looks at how much is kept
_MOST_DIGITS_BYTES = 9  # of an integer: more than 64 bits are in no snapshot

# Instructions that import, call, or ask somebody else for objects: pickles of data have none.
FORBIDDEN = {
    ord("c"): "GLOBAL", 0x93: "STACK_GLOBAL", ord("R"): "REDUCE", ord("b"): "BUILD", ord("i"): "INST", ord("o"): "OBJ",
    0x81: "NEWOBJ", 0x92: "NEWOBJ_EX", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", ord("P"): "PERSID",
    ord("Q"): "BINPERSID", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
}  # fmt: skip
_GET = re.compile(rb"h.|j....", re.DOTALL)
_GETS = re.compile(rb"(?:h.|j....)+e(?!\()", re.DOTALL)  # more items follow a second mark
_KINDS = {
    b"h": rb"h.",
    b"K": rb"K.",
    b"J": rb"J....",
    b"\x8a": rb"\x8a(?:\x06.{6}|\x07.{7}|\x05.{5}|\x08.{8})",
    b"j": rb"j....",
    b"M": rb"M..",
}
_SIMPLE = b"|".join(_KINDS.values())
_LIST = rb"\]\x94\((?:h.|j....)+e"
_PAIR = rb"(?:K.|M..){2}\x86\x94"
_ITEM = re.compile(rb"(h.|j....)(" + _PAIR + b"|" + _SIMPLE + b"|" + _LIST + rb")", re.DOTALL)
_FLAT_DICT = re.compile(rb"\}\x94\(((?:" + _ITEM.pattern + rb")+)u", re.DOTALL)
_MOST_PATTERNS = 20
_ROWS_AT_ONCE = 1 << 13
_BINGET, _MEMOIZE = b"h"[0], 0x94


class ForbiddenPickle(Exception):  # noqa: N818 (of a file, not of the program)
    """The pickle wants to import or call, or to grow beyond what is allowed: nothing of it is used."""


class BrokenPickle(Exception):  # noqa: N818 (of a file, not of the program)
    """The pickle ends early, or goes on with what no snapshot holds."""


class OpenDict(int):
    """A dict whose items have not come yet; the number is its place in the memo, -1 for none."""


class PickleVisitor(Protocol):
    """Who gets what a pickle holds, as soon as it is complete."""

    def on_dict(self, keys: Sequence[object], values: list[object]) -> object:
        """What takes the place of a dict."""

    def on_gets(self, items: list[object]) -> object:
        """What takes the place of a list of objects that came before; asked once for equal lists."""

    def wanted_of(self, keys: Sequence[object]) -> Collection[object]:
        """Of dicts with these keys, those whose values are to come as columns, many dicts at a time; none of others."""

    def on_rows(self, keys: Sequence[object], columns: Sequence[Sequence[object]]) -> Iterable[object]:
        """What takes their places, as one object or many; columns in the order of the keys, numbers as their texts."""


class DictPattern:
    """Dicts with these keys whose values are numbers or came before, matched at once; one value may be a list.

    A snapshot has millions of them, all alike; to execute their instructions one by one takes four times as long.
    """

    def __init__(
        self, keys: Sequence[object], items: Sequence[tuple[bytes, bytes]], wanted: Collection[object]
    ) -> None:
        self.keys = [key for key in keys if key in wanted]
        parts, self.list_place = [], -1
        self.pairs = [0, 0]  # tuples, each of which takes a place in the memo: before the list, and after it
        for key, (get, value) in zip(keys, items, strict=True):
            text = b"|".join([_KINDS.get(value[:1], b""), _SIMPLE]).lstrip(b"|")  # what was seen is tried first
            if value[:1] == b"]":
                self.list_place = self.keys.index(key)
                text = _LIST + b"|" + _SIMPLE
            elif value[-2:] == b"\x86\x94":
                self.pairs[self.list_place >= 0] += 1
                text = _PAIR
            parts.append(re.escape(get) + (b"(" if key in wanted else b"(?:") + text + b")")
        self.text = re.compile(rb"\}\x94\(" + b"".join(parts) + b"u", re.DOTALL)


class PlainPickle:
    """One pickle. `run` executes it; after it broke, `salvaged` is what was complete."""

    def __init__(self, data: bytes, visitor: PickleVisitor) -> None:
        self._data = data
        self._visitor = visitor
        self._stack: list[object] = []
        self._memo: list[object] = []
        self._marks: list[int] = []
        self._lists: dict[bytes, object] = {}
        self._patterns: list[DictPattern] = []
        self._kept = 0
        self._done = False
        self.at = 0  # byte

    def run(self) -> object:
        """The object of the pickle. ForbiddenPickle, or BrokenPickle where it ends early or makes no sense."""
        if self._data[:1] != b"\x80" or self._data[1:2] not in {b"\2", b"\3", b"\4", b"\5"}:
            raise BrokenPickle("it does not begin as a pickle of protocol 2 to 5")
        self.at = 2
        was_collecting = gc.isenabled()
        gc.disable()  # nothing here is garbage, and a collector would look at all of it again and again
        try:
            while not self._done:
                self._run_window(min(self.at + _WINDOW_BYTES, len(self._data)))
                self._check_size()
        except (IndexError, struct.error) as error:
            raise BrokenPickle(f"damaged at byte {self.at:,}") from error
        finally:
            if was_collecting:
                gc.enable()
        if len(self._stack) != 1 or self._marks:
            raise BrokenPickle("it ends inside of an object")
        return self._stack[0]

    def _run_window(self, end: int) -> None:
        """The commonest instruction here, all others by their handlers; objects are counted between windows."""
        if self.at >= end:
            raise BrokenPickle("it ends early")
        data, memo, push, handlers = self._data, self._memo, self._stack.append, _HANDLERS
        at = self.at
        while at < end:
            code = data[at]
            if code == _BINGET:
                push(memo[data[at + 1]])
                at += 2
                continue
            self.at = at
            handler = handlers[code]
            at = handler(self, at + 1)
            if at < 0:
                self._done = True
                return
        self.at = at

    def _check_size(self) -> None:
        if self._kept + len(self._stack) + len(self._memo) > MOST_OBJECTS:
            raise ForbiddenPickle(f"it holds more than {MOST_OBJECTS:,} objects")

    # --- numbers and strings ------------------------------------------------------------------------------------------

    def _none(self, at: int) -> int:
        self._stack.append(None)
        return at

    def _true(self, at: int) -> int:
        self._stack.append(True)
        return at

    def _false(self, at: int) -> int:
        self._stack.append(False)
        return at

    def _byte(self, at: int) -> int:
        self._stack.append(self._data[at])
        return at + 1

    def _short(self, at: int) -> int:
        self._stack.append(self._data[at] | self._data[at + 1] << 8)
        return at + 2

    def _int(self, at: int) -> int:
        self._stack.append(_INT.unpack_from(self._data, at)[0])
        return at + 4

    def _long(self, at: int) -> int:
        size = self._data[at]
        if size > _MOST_DIGITS_BYTES:
            raise BrokenPickle(f"an integer of {size} bytes at byte {at:,}")
        end = at + 1 + size
        self._stack.append(int.from_bytes(self._data[at + 1 : end], "little", signed=True))
        return end

    def _float(self, at: int) -> int:
        self._stack.append(_FLOAT.unpack_from(self._data, at)[0])
        return at + 8

    def _short_text(self, at: int) -> int:
        return self._text(at + 1, self._data[at])

    def _long_text(self, at: int) -> int:
        return self._text(at + 4, _SIZE.unpack_from(self._data, at)[0])

    def _text(self, at: int, size: int) -> int:
        end = at + size
        if end > len(self._data):
            raise BrokenPickle("it ends early")
        self._stack.append(self._data[at:end].decode(errors="replace"))
        return end

    # --- the memo -----------------------------------------------------------------------------------------------------

    def _long_get(self, at: int) -> int:
        self._stack.append(self._memo[_SIZE.unpack_from(self._data, at)[0]])
        return at + 4

    def _memoize(self, at: int) -> int:
        self._memo.append(self._stack[-1])
        return at

    def _put(self, at: int) -> int:
        self._put_at(self._data[at])
        return at + 1

    def _long_put(self, at: int) -> int:
        self._put_at(_SIZE.unpack_from(self._data, at)[0])
        return at + 4

    def _put_at(self, index: int) -> None:
        """Picklers number objects one by one: another index is there to take memory."""
        if index != len(self._memo):
            raise BrokenPickle(f"a memo index that no pickler writes at byte {self.at:,}")
        top = self._stack[-1]
        if type(top) is OpenDict:
            top = self._stack[-1] = OpenDict(index)
        self._memo.append(top)

    # --- containers ---------------------------------------------------------------------------------------------------

    def _mark(self, at: int) -> int:
        """Remember where items begin. A list of objects that all came before is told by its text, without its items."""
        top = self._stack[-1]
        if type(top) is list and not top and (gets := _GETS.match(self._data, at)):
            self._stack[-1] = self._list_of(gets[0][:-1], top)
            return gets.end()
        if len(self._marks) >= MOST_OPEN:
            raise ForbiddenPickle(f"it nests more than {MOST_OPEN} containers")
        self._marks.append(len(self._stack))
        return at

    def _list_of(self, gets: bytes, empty: object) -> object:
        made = self._lists.get(gets)
        if made is None:
            items = [self._memo[index] for index in _indices(gets)]
            self._kept += len(items)
            made = self._lists[gets] = self._visitor.on_gets(items)
        if self._memo and self._memo[-1] is empty:
            self._memo[-1] = made
        return made

    def _empty_list(self, at: int) -> int:
        self._stack.append([])
        self._kept += 1
        return at

    def _append(self, at: int) -> int:
        item = self._stack.pop()
        self._extend([item])
        return at

    def _appends(self, at: int) -> int:
        self._extend(self._since_mark())
        return at

    def _extend(self, items: list[object]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise BrokenPickle(f"items for what is no list at byte {self.at:,}")
        target.extend(items)
        self._kept += len(items)

    def _tuple(self, at: int) -> int:
        self._stack.append(self._since_mark())
        return at

    def _small_tuple(self, at: int) -> int:
        """A list as well: a tuple could be a key, and to hash a tuple of tuples may take for ever."""
        count = self._data[at - 1] - 0x84
        items = self._stack[-count:]
        if len(items) != count:
            raise BrokenPickle(f"a tuple without items at byte {self.at:,}")
        self._stack[-count:] = [items]
        return at

    def _empty_dict(self, at: int) -> int:
        for pattern in self._patterns:
            if pattern.text.match(self._data, at - 1):
                return self._rows(pattern, at - 1)
        self._learn(at - 1)
        opened = OpenDict(-1)
        if self._data[at] == _MEMOIZE:
            opened = OpenDict(len(self._memo))
            self._memo.append(opened)
            at += 1
        self._stack.append(opened)
        return at

    def _learn(self, at: int) -> None:
        """Others like the dict that begins here are matched at once from now on, if the visitor wants that."""
        flat = _FLAT_DICT.match(self._data, at) if len(self._patterns) < _MOST_PATTERNS else None
        if flat is None:
            return
        items = [(item[1], item[2]) for item in _ITEM.finditer(flat[1])]
        keys = [self._get(get) for get, _value in items]
        wanted = self._visitor.wanted_of(keys)
        lists = [key for key, (_get, value) in zip(keys, items, strict=True) if value[:1] == b"]"]
        if wanted and (not lists or (len(lists) == 1 and lists[0] in wanted)):
            self._patterns.insert(0, DictPattern(keys, items, wanted))

    def _rows(self, pattern: DictPattern, at: int) -> int:
        """All dicts of a pattern that follow one another here. Nobody can name them later: their memo is empty."""
        rows, lists, place, memo = list[tuple[bytes, ...]](), list[object](), pattern.list_place, self._memo
        before, after = [None] * (1 + pattern.pairs[0]), [None] * pattern.pairs[1]
        scanner = pattern.text.scanner(self._data, at)  # type: ignore[attr-defined]
        while (match := scanner.match()) is not None:
            values = match.groups()
            rows.append(values)
            memo.extend(before)
            at = match.end()
            if place >= 0:
                lists.append(self._listed(values[place]))
            if after:
                memo.extend(after)
            if len(rows) == _ROWS_AT_ONCE:
                break
        columns = [self._column(column) for column in zip(*rows, strict=True)]
        if place >= 0:
            columns[place] = lists
        self._stack.extend(self._visitor.on_rows(pattern.keys, columns))
        self._kept += len(rows)
        return at

    def _listed(self, text: bytes) -> object:
        if text[0] != b"]"[0]:
            return self._get(text) if text[0] in b"hj" else text
        made = self._lists.get(text)
        if made is None:
            made = self._lists[text] = self._list_of(text[3:-1], None)
        self._memo.append(made)
        return made

    def _column(self, texts: Sequence[bytes]) -> Sequence[object]:
        """With what came before in the place of its text; a column of numbers as it is."""
        if texts[0][0] not in b"hj":
            return texts
        known = {text: self._get(text) if text[0] in b"hj" else text for text in set(texts)}
        return [known[text] for text in texts]

    def _get(self, text: bytes) -> object:
        return self._memo[int.from_bytes(text[1:], "little")]

    def _set_item(self, at: int) -> int:
        value, key = self._stack.pop(), self._stack.pop()
        self._fill([key, value])
        return at

    def _set_items(self, at: int) -> int:
        self._fill(self._since_mark())
        return at

    def _fill(self, items: list[object]) -> None:
        opened = self._stack[-1]
        if type(opened) is dict:  # one of more than a thousand items comes in parts
            opened.update(zip(map(_key, items[::2]), items[1::2], strict=True))
            return
        if type(opened) is not OpenDict or len(items) % 2:
            raise BrokenPickle(f"items for what is no dict at byte {self.at:,}")
        self._close(opened, tuple(items[::2]), items[1::2])

    def _close(self, opened: OpenDict, keys: Sequence[object], values: list[object]) -> None:
        made = self._stack[-1] = self._visitor.on_dict(keys, values)
        self._kept += 1
        if opened >= 0:
            self._memo[opened] = made

    def _since_mark(self) -> list[object]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _frame(self, at: int) -> int:
        return at + 8

    def _stop(self, at: int) -> int:
        self.at = at
        return -1

    def _unknown(self, at: int) -> NoReturn:
        code = self._data[at - 1]
        if code in FORBIDDEN:
            raise ForbiddenPickle(f"it wants to import or call something ({FORBIDDEN[code]} at byte {at - 1:,})")
        raise BrokenPickle(f"an instruction that no snapshot has at byte {at - 1:,}")

    def salvaged(self) -> dict[str, object]:
        """The outermost dict as far as it had come: containers that were open end where the pickle broke."""
        while len(self._marks) > 1:
            items = self._since_mark()
            if self._stack and type(self._stack[-1]) is list:
                self._stack[-1].extend(items)
            elif self._stack and type(self._stack[-1]) is OpenDict:
                self._stack.pop()  # a row that is not complete
        return dict(_pairs(self._stack[1:]))


def _pairs(items: list[object]) -> Iterator[tuple[str, list[object]]]:
    """Each key with its list, and what was still to be appended to it."""
    name, values = "", list[object]()
    for item in items:
        if type(item) is str:
            name, values = item, []
        elif name and type(item) is list:
            values = item
            yield name, values
            name = ""
        else:
            values.append(item)


def _indices(gets: bytes) -> Iterator[int]:
    return (int.from_bytes(get[1:], "little") for get in _GET.findall(gets))


def text_of(value: object) -> object:
    """The text of a number as a pickle has it; what is no number, or too large for it, stays what it is."""
    if type(value) is not int or value.bit_length() > 63:
        return value
    return b"\x8a\x08" + value.to_bytes(8, "little", signed=True)


def numbers_of(texts: Sequence[bytes]) -> I64:
    """The whole numbers that these texts are, by the thousand. BrokenPickle where one is something else."""
    letters = np.array(texts, "S10").view(np.uint8).reshape(-1, 10)
    code = letters[:, 0]
    is_long, length = code == 0x8A, letters[:, 1].astype(np.int64)
    sizes = np.select([is_long, code == b"J"[0], code == b"M"[0], code == b"K"[0]], [length, 4, 2, 1], 0)
    if not sizes.all():
        raise BrokenPickle("a field that should be a whole number is not one")
    digits = np.where(is_long[:, None], letters[:, 2:10], letters[:, 1:9])
    digits[np.arange(8) >= sizes[:, None]] = 0
    values: I64 = np.ascontiguousarray(digits).view("<i8")[:, 0]
    missing_bits = np.where(sizes < 4, 0, 64 - 8 * sizes)  # the two small kinds have no sign
    return values << missing_bits >> missing_bits


def _key(key: object) -> str:
    if type(key) is not str:
        raise BrokenPickle("a key that is no text")
    return key


_INT, _SIZE, _FLOAT = struct.Struct("<i"), struct.Struct("<I"), struct.Struct(">d")
_Handler = Callable[[PlainPickle, int], int]
_HANDLERS: list[_Handler] = [PlainPickle._unknown] * 256
for _code, _handler in {
    b"N": PlainPickle._none, b"\x88": PlainPickle._true, b"\x89": PlainPickle._false, b"K": PlainPickle._byte,
    b"M": PlainPickle._short, b"J": PlainPickle._int, b"\x8a": PlainPickle._long, b"G": PlainPickle._float,
    b"\x8c": PlainPickle._short_text, b"X": PlainPickle._long_text, b"j": PlainPickle._long_get,
    b"\x94": PlainPickle._memoize, b"q": PlainPickle._put, b"r": PlainPickle._long_put, b"(": PlainPickle._mark,
    b"]": PlainPickle._empty_list, b"a": PlainPickle._append, b"e": PlainPickle._appends, b"t": PlainPickle._tuple,
    b")": PlainPickle._empty_list, b"\x85": PlainPickle._small_tuple, b"\x86": PlainPickle._small_tuple,
    b"\x87": PlainPickle._small_tuple, b"}": PlainPickle._empty_dict, b"s": PlainPickle._set_item,
    b"u": PlainPickle._set_items, b"\x95": PlainPickle._frame, b".": PlainPickle._stop,
}.items():  # fmt: skip
    _HANDLERS[_code[0]] = _handler
