"""Cameras and addresses: which sources they are, and how they are opened."""

import re
from contextlib import ExitStack
from pathlib import Path

import av
import cv2
from av import VideoStream
from av.container import InputContainer

from mmvidformer.video.containers import TEXT, find_video
from mmvidformer.video.errors import BadVideo, CaptureLost, blame

# What addresses may use; not files of this machine, which a playlist could name.
PROTOCOLS = "http,https,httpproxy,tls,tcp,udp,rtp,rtsp,rtmp,srt,crypto"
SILENCE = 10.0  # seconds without data after which a connection is given up
LOOK = 60.0  # seconds for about twenty frames, which FFmpeg looks at first; slow cameras need many


def is_stream(source: str | int | Path) -> bool:
    """Whether a source is the index of a camera, or an address such as ``rtsp://``."""
    text = str(source)
    return "://" in text or text.isdigit() and not Path(text).exists()


def public_name(source: str) -> str:
    """A source without a user, a password and a query, which may hold them too."""
    if "://" not in source:
        return source
    # To the last @: a password that should have been quoted must not be printed either.
    return re.sub("//.*@", "//", source).partition("?")[0]


def open_camera(number: int) -> cv2.VideoCapture:
    """Open a camera by its number; raise ``CaptureLost`` if there is none, or it is in use."""
    # Each way by which OpenCV looks for a camera would print that there is none; 0 is silent.
    log = getattr(cv2.utils, "logging", cv2)  # OpenCV 4 has the function elsewhere
    level = log.setLogLevel(0)
    camera = cv2.VideoCapture(number)
    log.setLogLevel(level)
    if not camera.isOpened():
        raise CaptureLost(f"camera {number} does not exist or is in use")
    return camera


def open_address(address: str) -> tuple[InputContainer, VideoStream]:
    """Connect to an address; returns the container, and its video.

    Raises:
        CaptureLost: If it cannot be reached, is silent or has no video.
    """
    name = public_name(address)
    options = {
        "protocol_whitelist": PROTOCOLS,
        "rtsp_transport": "tcp",
        "rw_timeout": str(round(SILENCE * 1e6)),  # while it looks; RTSP has none
    }
    limits = dict(container_options=options, timeout=(LOOK, SILENCE))
    try:
        with blame(name), ExitStack() as opened:
            container = av.open(address, **TEXT, **limits)
            opened.callback(container.close)
            video = find_video(container, name)
            opened.pop_all()
    except BadVideo as error:
        # Without the error itself, whose text has the whole address.
        reason = reason_of(error.__cause__ or error)
        if isinstance(error.__cause__, av.ExitError):
            reason = f"no picture within {LOOK:g} s"
        raise CaptureLost(f"cannot open {name}: {reason}") from None
    return container, video


def reason_of(error: BaseException) -> str:
    """Return why a connection ended, without the address."""
    if isinstance(error, (av.ExitError, TimeoutError)):
        return f"no data for {SILENCE:g} s"
    text = getattr(error, "reason", None) or getattr(error, "strerror", None)
    return str(text or type(error).__name__)
