"""What a client measured of its requests: the file that `vllm bench serve --save-result --save-detailed` writes."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from redline.artifacts.file_kind import FileKind
from redline.errors import InputError
from redline.serving.recording import ServingRecording
from redline.serving.request_ledger import RequestAccount, RequestLedger, RequestTimes
from redline.timeline.table import I64

_NS_PER_S = 1_000_000_000
_Seconds = Annotated[float, Meta(ge=0, le=1e6)]
_NUMBERED = re.compile(r"bench-[0-9a-f]+-(\d+)-")  # in the name of a request, which the client gives it


@dataclass(frozen=True, kw_only=True)
class ClientTimes:
    """One row per request that succeeded, since the client sent it."""

    number: I64  # that the client gave it
    first_token_ns: I64
    last_token_ns: I64


@dataclass(frozen=True, kw_only=True)
class _Detailed:
    """The columns of the file that are read, one row per request."""

    ttfts: list[_Seconds]
    itls: list[list[_Seconds]]
    errors: list[str]


_CLIENT = FileKind(
    "detailed results of `vllm bench serve`",
    _Detailed,
    "give --save-detailed to it",
    most_bytes=128 << 20,
    is_large=True,
)


def read_client(path: Path) -> ClientTimes:
    """InputError where it is another file."""
    told = _CLIENT.read(path)
    if not len(told.ttfts) == len(told.itls) == len(told.errors):
        raise InputError(f"{path}: its columns are of different requests; measure again")
    columns = zip(told.ttfts, told.itls, told.errors, strict=True)
    rows = [
        (number, _ns(first), _ns(first + sum(gaps))) for number, (first, gaps, error) in enumerate(columns) if not error
    ]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return ClientTimes(number=table[:, 0], first_token_ns=table[:, 1], last_token_ns=table[:, 2])


def _ns(seconds: float) -> int:
    return round(seconds * _NS_PER_S)


def with_client(ledger: RequestLedger, recording: ServingRecording, client: ClientTimes) -> RequestLedger:
    """What the client waited for besides is the network, and the HTTP server; only durations count, no clocks.

    InputError where it is a file about other requests.
    """
    row = rows_of_requests(client, recording)[ledger.to_last_token.request]
    if not (row >= 0).any():
        raise InputError("the client's file tells of none of the requests of this run; give the one of its own load")
    return replace(
        ledger,
        to_first_token=_with_network(ledger.to_first_token, row, client.first_token_ns),
        to_last_token=_with_network(ledger.to_last_token, row, client.last_token_ns),
    )


def rows_of_requests(client: ClientTimes, recording: ServingRecording) -> I64:
    """The row of each recorded request among the client's; -1 for requests of others."""
    known = {number: row for row, number in enumerate(client.number.tolist())}
    found = (_NUMBERED.search(name) for name in recording.requests.names)
    return np.array([known.get(int(match[1]), -1) if match else -1 for match in found], np.int64)


def _with_network(times: RequestTimes, row: I64, measured_ns: I64) -> RequestTimes:
    besides = np.where(row >= 0, np.maximum(measured_ns[row] - times.length_ns, 0), 0)
    amounts = times.amounts_ns.copy()
    amounts[:, RequestAccount.NETWORK] = besides
    return replace(times, length_ns=times.length_ns + besides, amounts_ns=amounts)
