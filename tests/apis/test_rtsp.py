"""An RTSP address, read from a server that sends as cameras do: H.264 in RTP, in its connection."""

import re
import socketserver
import struct
import time
from threading import Thread

import av
import numpy as np
import pytest

from mmvidformer.apis import Capture

SDP = "\r\n".join(
    (
        "v=0",
        "o=- 0 0 IN IP4 127.0.0.1",
        "s=live",
        "t=0 0",
        "m=video 0 RTP/AVP 96",
        "a=rtpmap:96 H264/90000",
        "a=fmtp:96 packetization-mode=1",
        "a=control:track",
        "",
    )
)
BODY = {
    "DESCRIBE": f"Content-Type: application/sdp\r\nContent-Length: {len(SDP)}\r\n\r\n{SDP}",
    "SETUP": "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 1\r\n\r\n",
}


class Camera(socketserver.StreamRequestHandler):
    """A connection: answers requests (RFC 2326), then sends the frames at 200 a second."""

    def handle(self) -> None:
        self.server.connections -= 1
        while self.server.connections >= 0 and (line := self.rfile.readline()):
            method, headers = line.split()[0].decode(), {}
            while text := self.rfile.readline().decode().strip():
                name, _, headers[name] = text.partition(": ")
            answer = f"RTSP/1.0 200 OK\r\nCSeq: {headers['CSeq']}\r\n"
            self.wfile.write((answer + BODY.get(method, "Session: 1\r\n\r\n")).encode())
            if method == "PLAY":
                return self.send()

    def send(self) -> None:
        """Send a packet (RFC 3550) for each unit of a frame; the last one is marked."""
        number = 0
        for frame, units in enumerate(self.server.frames):
            for left, unit in zip(reversed(range(len(units))), units, strict=True):
                kind = 96 if left else 96 | 0x80
                packet = struct.pack("!BBHII", 0x80, kind, number, 9000 * frame, 1) + unit
                self.wfile.write(struct.pack("!cBH", b"$", 0, len(packet)) + packet)
                number += 1
            time.sleep(0.005)


class CameraServer(socketserver.ThreadingTCPServer):
    """A server of gray frames of brightness 10 i at 10 per second, for some connections."""

    daemon_threads = True

    def __init__(self, frames: int, connections: int) -> None:
        super().__init__(("127.0.0.1", 0), Camera)
        codec = av.CodecContext.create("libx264", "w")
        codec.width, codec.height, codec.pix_fmt, codec.framerate = 64, 48, "yuv420p", 10
        codec.options = {"tune": "zerolatency", "preset": "ultrafast"}
        images = (np.full((48, 64, 3), 10 * i, np.uint8) for i in range(frames))
        coded = [codec.encode(av.VideoFrame.from_ndarray(image, "rgb24")) for image in images]
        self.frames = [re.split(b"\0{2,3}\1", bytes(*packets))[1:] for packets in coded]
        self.connections = connections
        self.address = f"rtsp://user:secret@127.0.0.1:{self.server_address[1]}/live"
        Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


def test_an_rtsp_address_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmvidformer.video.capture.WAIT", 0.02)
    found = []
    with (
        CameraServer(20, connections=2) as server,
        Capture(server.address, queue=100, patience=0) as source,
        pytest.raises(ConnectionError, match="@?127.* went away after 41 frames .* come back"),
    ):
        assert (source.is_live, source.total) == (True, None) and "secret" not in source.name
        found.extend((number, pixels) for number, _, pixels in source.frames())
    server.shutdown()
    assert [number for number, _ in found] == [*range(20), *range(21, 41)]
    assert (source.cuts, source.dropped) == ([21], 0)
    for number, pixels in found:
        assert abs(pixels.mean() - 10 * (number % 21 if number < 20 else number - 21)) < 3
