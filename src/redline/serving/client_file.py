"""What a client measured of its requests: the file that `vllm bench serve --save-result --save-detailed` writes."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from redline.artifacts import open_ordinary
from redline.errors import InputError, first_line
from redline.serving.recording import ServingRecording
from redline.serving.request_ledger import RequestAccount, RequestLedger, RequestTimes
from redline.timeline.table import I64

_NS_PER_S = 1_000_000_000
_NUMBERED = re.compile(r"bench-[0-9a-f]+-(\d+)-")  # in the name of a request, which the client gives it


@dataclass(frozen=True, kw_only=True)
class ClientTimes:
    """One row per request that succeeded, since the client sent it."""

    number: I64  # that the client gave it
    first_token_ns: I64
    last_token_ns: I64


def read_client(path: Path) -> ClientTimes:
    """InputError where it is another file."""
    try:
        with os.fdopen(open_ordinary(path), encoding="utf-8") as file:
            told = json.load(file)
        table = _table(told)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path}: these are no detailed results of `vllm bench serve`: {first_line(error)}") from error
    return ClientTimes(number=table[:, 0], first_token_ns=table[:, 1], last_token_ns=table[:, 2])


def _table(told: Mapping[str, Any]) -> I64:
    columns = zip(told["ttfts"], told["itls"], told["errors"], strict=True)
    rows = [
        (number, _ns(first), _ns(first + sum(gaps))) for number, (first, gaps, error) in enumerate(columns) if not error
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


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
