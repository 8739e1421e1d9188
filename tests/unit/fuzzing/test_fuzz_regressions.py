"""Inputs that once broke the reader, found by scripts/fuzz.py and made as small as they get."""

import gzip
import warnings
from pathlib import Path

import pytest

from tests.support.fuzzing import runner, traces
from tests.support.fuzzing.mutate import Mutant

SPAN = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}'
COLLECTIVE = b'{"ph":"X","cat":"kernel","name":"ncclKernel_AllReduce","pid":0,"tid":7,"ts":1,"dur":1}'
TRACE = b'{"traceEvents":[' + SPAN + b"]}"


def tar(name: bytes, size: bytes, content: bytes, kind: bytes = b"0") -> bytes:
    """An archive of one member whose header says what it likes; the checksum is right."""
    before = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + size.ljust(12, b"\0") + b"00000000000\0"
    after = kind.ljust(101, b"\0") + b"ustar\x0000"
    header = (before + b" " * 8 + after).ljust(512, b"\0")
    return header[:148] + b"%06o\0 " % sum(header) + header[156:] + content


INPUTS = {
    # numbers
    "exponent beyond Decimal, not in an event": b"[1e9999999999999999999",
    "exponent beyond Decimal, in a field": b'{"traceEvents":[{"":1e9999999999999999999},' + SPAN + b"]}",
    "exponent beyond Decimal, as a time": TRACE.replace(b'"ts":1', b'"ts":1e9999999999999999999'),
    "time between 2**63 ns and 19 digits": b'{"traceEvents":[{h":"",ts":9999999999999999.9,d":7,s":{s":""}}',
    "duration between 2**63 ns and 19 digits": b'{"traceEvents":[{dur":9999999999999999.9,"":2,s":4,r":5}',
    "time beyond 2**63 ns, of the only event": TRACE.replace(b'"ts":1', b'"ts":10661203462598738'),
    "time beyond any double": TRACE.replace(b'"ts":1', b'"ts":1e308'),
    "two times whose distance is beyond 64 bits": (
        b'{"traceEvents":[{ph":"X",name":"x",ts":-7,r":8},{"ph":"X",name":"e","":1,ts":9223372036854775.8}'
    ),
    "a begin without time": (
        b'{"traceEvents":[{"ph":"B","pid":1,"tid":1,"":[""]}{ph":"E",e":"",pid":1,tid":1,ts":1,e":[""]}'
    ),
    "base time at the end of 64 bits": (
        b'{"baseTimeNanoseconds":9223372036854775807,"traceEvents":[' + COLLECTIVE + b"]}"
    ),
    "base time at the end of 64 bits, after the events": (
        b'{"traceEvents":[{"ph":"X","":"","name":"u","ts":1,"":{"":1}}],"baseTimeNanoseconds":9223372036854775807'
    ),
    # ranks and devices
    "rank of 5,000 digits": (
        b'{"traceEvents":[{"ph":"M","name":"process_name","pid":1,"args":{"name":"Rank %s"}},%s]}' % (b"7" * 5000, SPAN)
    ),
    "world of all 63-bit ranks": (
        b'{"distributedInfo":{"rank":0,"world_size":9223372036854775807},"traceEvents":[' + SPAN + b"]}"
    ),
    "last 63-bit rank": b'{"distributedInfo":{"rank":9223372036854775807},"traceEvents":[' + SPAN + b"]}",
    "kernel of a host process": b'{"traceEvents":[{ph":"X",cat":"Kernel",name":"a",pid":3936,ts":3,r":4,s":{e":""}}',
    # halves of surrogate pairs
    "surrogate in a list": TRACE.replace(b'"dur":1', b'"dur":1,"args":{"Input Dims":["\\ud800"]}'),
    "surrogate in place of a number": TRACE.replace(b'"dur":1', b'"dur":1,"args":{"Group size":"\\ud800"}'),
    "surrogate as a thread": b'{"traceEvents":[{"ph":"X","":"","name":"2","":2,"tid":"\\ud800","ts":8,"":{"":0}}',
    "surrogate as a phase": b'{"traceEvents":[{"ph":"\\ud800","name":"a","ts":1},' + SPAN + b"]}",
    "surrogate as a category": TRACE.replace(b"cpu_op", b"\\ud800"),
    "surrogate in the name of a thread": (
        b'{"traceEvents":[{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"\\ud800"}},' + SPAN + b"]}"
    ),
    "surrogate in place of an event": b'{"traceEvents":["\\ud800",' + SPAN + b"]}",
    "surrogate in metadata": b'{"synthetic":"\\udc00""traceEvents":[',
    "surrogate in a version": b'{"schemaVersion":"\\ud800","traceEvents":[' + SPAN + b"]}",
    "surrogate in the name of a group": (
        b'{"distributedInfo":{"pg_config":"[{\\"pg_name\\":\\"\\\\ud800\\",\\"ranks\\":[0]}]"},'
        b'"traceEvents":[' + SPAN + b"]}"
    ),
    # archives
    "member of exabytes to skip": tar(b"notes.txt", b"\x80" + b"\xff" * 11, b"x" * 28),
    "member of exabytes to read": tar(b"a.json", b"\x80" + b"\xff" * 11, TRACE),
    "sparse member of gigabytes": tar(b"a.json", b"77777777777", TRACE + b"," * 2131, b"S"),
    "cut in a member": tar(b"a.json", b"00000040000", TRACE),
    "cut after the header of a member": gzip.compress(tar(b"a.json.gz", b"00000010234", b""), mtime=0),
}  # fmt: skip
UNFIXED: frozenset[str] = frozenset()
"""Known, and waiting for a fix; then their failures go from UNFIXED in test_fuzz, too."""


def cases() -> list[object]:
    mark = pytest.mark.xfail(strict=True, reason="found by fuzzing, not fixed yet")
    return [pytest.param(data, id=name, marks=[mark] if name in UNFIXED else []) for name, data in INPUTS.items()]


@pytest.mark.parametrize("data", cases())
def test_what_once_broke_the_reader_is_read_or_refused(data: bytes, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy warns where numbers leave 64 bits
        _, _, failure = runner.examine(traces.TRACE, Mutant(name="trace.json", data=data, how=()), tmp_path)
    assert failure is None, failure.trace
