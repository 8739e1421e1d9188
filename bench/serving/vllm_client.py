"""What a client measured of its requests: the file that `vllm bench serve --save-result --save-detailed` writes."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from redline.serving.recording import ServingRecording
from redline.timeline.table import I64

_NS_PER_S = 1_000_000_000
_NUMBERED = re.compile(r"bench-[0-9a-f]+-(\d+)-")  # in the name of a request, which the client gives it


@dataclass(frozen=True, kw_only=True)
class ClientResults:
    """One row per request that succeeded, by the client's own clock."""

    number: I64  # that the client gave it
    start_ns: I64
    first_token_ns: I64  # since the start
    last_token_ns: I64  # since the start


def read_client(path: Path) -> ClientResults:
    told = json.loads(path.read_text(encoding="utf-8"))
    starts, firsts, between, errors = (told[name] for name in ("start_times", "ttfts", "itls", "errors"))
    rows = [
        (number, _ns(start), _ns(first), _ns(first + sum(gaps)))
        for number, (start, first, gaps, error) in enumerate(zip(starts, firsts, between, errors, strict=True))
        if not error
    ]
    table = np.array(rows, np.int64).reshape(-1, 4)
    return ClientResults(
        number=table[:, 0], start_ns=table[:, 1], first_token_ns=table[:, 2], last_token_ns=table[:, 3]
    )


def rows_of_requests(client: ClientResults, recording: ServingRecording) -> I64:
    """The row of each recorded request among the client's; -1 for requests of others."""
    known = {number: row for row, number in enumerate(client.number.tolist())}
    found = (_NUMBERED.search(name) for name in recording.requests.names)
    return np.array([known.get(int(match[1]), -1) if match else -1 for match in found], np.int64)


def _ns(seconds: float) -> int:
    return round(seconds * _NS_PER_S)
