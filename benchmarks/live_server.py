"""An HTTP server that sends a video as a camera does: frame by frame, in real time."""

import io
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import av
import numpy as np


class LiveServer:
    """A server on the loopback; a context manager.

    Each connection gets a stream of ``frames`` frames of H.264 in MPEG-TS from its first frame on.
    Frame i is gray, of brightness 5 i modulo 250.

    Args:
        frames: Number of frames, after which the connection ends.
        fps: Frames per second that the stream states.
        pace: Frames per second that are sent; default: ``fps``.
        size: Height and width.
        port: Port; 0 is a free one.
        connections: Number of connections after which the server has nothing more.

    Attributes:
        address: Where the stream is.
    """

    def __init__(
        self,
        frames: int,
        fps: int = 30,
        pace: float | None = None,
        size: tuple[int, int] = (48, 64),
        port: int = 0,
        connections: float = float("inf"),
    ) -> None:
        parts, pace, closed = _encode(frames, fps, size), pace or fps, Event()
        left = connections

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "video/mp2t")
                self.end_headers()
                start = time.perf_counter()
                for i, part in enumerate(parts):
                    if closed.wait(max(start + i / pace - time.perf_counter(), 0)):
                        return
                    try:
                        self.wfile.write(part)
                    except OSError:  # the client is gone
                        return

            def log_message(self, *args: object) -> None:
                pass

        self._closed = closed
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.address = f"http://127.0.0.1:{self.port}/live.ts"
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def __enter__(self) -> "LiveServer":
        return self

    def __exit__(self, *error: object) -> None:
        """End all connections and stop."""
        self._closed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _encode(frames: int, fps: int, size: tuple[int, int]) -> list[bytes]:
    """Return the bytes of each frame."""
    file, parts = io.BytesIO(), []
    with av.open(file, "w", "mpegts", options={"flush_packets": "1"}) as container:
        options = {"g": str(fps), "tune": "zerolatency", "preset": "ultrafast"}
        stream = container.add_stream("libx264", rate=fps, options=options)
        (stream.height, stream.width), stream.pix_fmt = size, "yuv420p"
        for i in range(frames):
            pixels = np.full((*size, 3), 5 * i % 250, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
            parts.append(file.getvalue())
            file.seek(0)
            file.truncate()
    return parts
