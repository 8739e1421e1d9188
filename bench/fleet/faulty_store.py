"""A real S3 server (moto's, a process on the loopback), and a proxy in front of it that fails as stores do."""

import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUCKET = "traces"
_START_S = 60
_PIECE_BYTES = 1 << 16
_HOP_BY_HOP = ("connection", "transfer-encoding", "content-length", "keep-alive")
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


@dataclass(kw_only=True)
class Faults:
    """What fails, as shares of the requests, and what was done so far."""

    refused: float = 0.0  # 503
    cut: float = 0.0  # the connection is closed in the middle of a body
    short: float = 0.0  # fewer bytes than asked for, and a header that agrees
    lossy_listing: float = 0.0  # a page lacks an object, and does not say so
    endless_listing: float = 0.0  # a page says that there is more, and not how to get it
    refused_writes: bool = False
    """Every request that writes is refused."""
    broken: str = ""
    """A regular expression: each GET of an object whose path matches is refused."""
    bytes_per_s: float = 0.0  # of each connection; 0: as fast as it goes
    seed: int = 1
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random, self._lock = random.Random(self.seed), threading.Lock()

    def happens(self, name: str) -> bool:
        with self._lock:
            share: float = getattr(self, name)
            hit = self._random.random() < share
            self.done[name] += hit
        return hit

    def one_of(self, count: int) -> int:
        with self._lock:
            return self._random.randrange(count)


class _Proxy(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    upstream = ("", 0)
    faults = Faults()

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _pass_on(self) -> None:
        body = self._body()
        self.faults.done["requests"] += 1
        is_write = self.command not in {"GET", "HEAD"}
        broken = bool(self.faults.broken) and self.command == "GET" and re.search(self.faults.broken, self.path)
        if broken or (is_write and self.faults.refused_writes) or self.faults.happens("refused"):
            self._answer(503, {"Content-Type": "application/xml"}, _SLOW_DOWN)
            return
        connection = HTTPConnection(*self.upstream, timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
            connection.request(self.command, self.path, body, headers)
            self._give(connection.getresponse())
        finally:
            connection.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815 (names of http.server)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _give(self, response: HTTPResponse) -> None:
        data = response.read()
        headers = {name: value for name, value in response.getheaders() if name.lower() not in _HOP_BY_HOP}
        if self.command == "HEAD":
            self._answer(response.status, {**headers, "Content-Length": response.headers["Content-Length"] or "0"}, b"")
            return
        if response.status < 300 and self.command == "GET":
            if "list-type=2" in self.path:
                data = self._listing(data)
            elif len(data) > 1 and self.faults.happens("short"):
                data = data[: len(data) // 2]
            elif len(data) > 1 and self.faults.happens("cut"):
                self._answer(response.status, {**headers, "Content-Length": str(len(data))}, data[: len(data) // 2])
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
        self._answer(response.status, headers, data)

    def _listing(self, data: bytes) -> bytes:
        entries = re.findall(rb"<Contents>.*?</Contents>", data, re.DOTALL)
        if not entries:
            return data
        shorter = data.replace(entries[self.faults.one_of(len(entries))], b"", 1)
        if self.faults.happens("endless_listing"):
            return re.sub(rb"<IsTruncated>false", b"<IsTruncated>true", shorter)
        if self.faults.happens("lossy_listing"):
            return re.sub(rb"<KeyCount>(\d+)", lambda match: b"<KeyCount>%d" % (int(match[1]) - 1), shorter)
        return data

    def _answer(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in ({"Content-Length": str(len(data))} | dict(headers)).items():
            self.send_header(name, value)
        self.end_headers()
        pieces = [data] if not self.faults.bytes_per_s else _pieces(data)
        for piece in pieces:
            self.wfile.write(piece)
            if self.faults.bytes_per_s:
                time.sleep(len(piece) / self.faults.bytes_per_s)


def _pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _PIECE_BYTES):
        yield data[start : start + _PIECE_BYTES]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients leave; that is theirs to do."""


@contextmanager
def proxied(upstream: str, faults: Faults) -> Iterator[str]:
    """The address of a proxy in front of a server."""
    host, _, port = upstream.rpartition("/")[2].partition(":")
    handler = type("Proxy", (_Proxy,), {"upstream": (host, int(port)), "faults": faults})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def s3_server(python: str = sys.executable) -> Iterator[str]:
    """The address of moto's server, started for this and ended with it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _await(port, process)
            address = f"http://127.0.0.1:{port}"
            asked(address, "PUT", f"/{BUCKET}")
            yield address
        finally:
            process.kill()


def asked(server: str, method: str, path: str, body: bytes = b"") -> bytes:
    """What the server answers to a request without a signature, which it does not check."""
    connection = HTTPConnection(server.rpartition("/")[2], timeout=60)
    try:
        connection.request(method, path, body)
        return connection.getresponse().read()
    finally:
        connection.close()


def put_object(server: str, key: str, data: bytes) -> None:
    asked(server, "PUT", f"/{BUCKET}/{key}", data)


def objects(server: str) -> dict[str, bytes]:
    """All that is in the bucket."""
    listing = asked(server, "GET", f"/{BUCKET}?list-type=2").decode()
    return {key: asked(server, "GET", f"/{BUCKET}/{key}") for key in re.findall("<Key>(.*?)</Key>", listing)}


def unfinished_uploads(server: str) -> int:
    return asked(server, "GET", f"/{BUCKET}?uploads").count(b"<Upload>")


def _await(port: int, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the S3 server does not start")
