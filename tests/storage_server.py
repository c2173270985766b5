"""An S3 server on this machine, behind a proxy that makes faults."""

import http.client
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FAULTS = ("slow", "reset", "503", "truncated")
HOP = {"transfer-encoding", "connection", "content-length", "server", "date"}


class Proxy(ThreadingHTTPServer):
    """Passes requests on to a server, but for some faults.

    Attributes:
        methods: Requests whose answers have faults.
        faults: Of the next answers, each of ``FAULTS``, or empty for none.
        lasting: A fault of all answers, if not empty.
        stalls: Of an upload whose address ends so, a part is read, and nothing else happens.
        stalled: Set when an upload stalls.
        pause: Seconds of a slow answer.
        sent: Bytes of the answers' contents, but for slow ones.
        gets: Number of GET requests.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = port
        self.stalled = threading.Event()
        self.pause = 3.0
        self.reset()

    def reset(self) -> None:
        """Make no faults, and count from zero."""
        self.methods = {"GET", "HEAD"}
        self.faults: deque[str] = deque()
        self.lasting = self.stalls = ""
        self.sent = self.gets = 0
        self.stalled.clear()

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, address: Any) -> None:
        """Say nothing of clients that have gone."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits 40 ms for the receipt of the headers
    server: Proxy

    def _pass_on(self) -> None:
        stalls, path = self.server.stalls, self.path.partition("?")[0]
        if self.command == "PUT" and stalls and path.endswith(stalls):
            self._stall()
            return
        fault = ""
        self.server.gets += self.command == "GET"
        if self.command in self.server.methods:
            fault = self.server.lasting or (self.server.faults and self.server.faults.popleft())
        body = self._body()
        if fault == "503":  # nothing is done
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "expect")}
        headers.setdefault("Authorization", "AWS web:none")  # moto refuses those without a name
        upstream.request(self.command, self.path, body, headers)
        answer = upstream.getresponse()
        content = answer.read()
        if fault == "slow":
            time.sleep(self.server.pause)
        if fault == "reset":
            # Close with RST in place of FIN.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        length = answer.getheader("content-length")
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)) if content else length or "0")
        self.end_headers()
        if fault == "truncated":
            content = content[: len(content) // 2]
            self.close_connection = True
        if fault != "slow":  # whose client has gone, and maybe the test
            self.server.sent += len(content)  # before the client goes on
        self.wfile.write(content)

    def _stall(self) -> None:
        self.rfile.read(1000)
        self.server.stalled.set()
        self.rfile.read()  # until the client is gone
        self.close_connection = True

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def s3_server(bucket: str = "bucket") -> Iterator[Proxy]:
    """Start moto's S3 server with a bucket, and a proxy in front of it."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    proxy = Proxy(port)
    threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
    try:
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        client.create_bucket(Bucket=bucket)
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        server.stop()
