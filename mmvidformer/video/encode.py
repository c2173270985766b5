import os
from fractions import Fraction
from pathlib import Path

import av
from av import VideoFrame
from av.video.reformatter import VideoReformatter

from mmvidformer.storage.atomic import write_atomically
from mmvidformer.video.containers import decode_frames, open_container, video_stream
from mmvidformer.video.facts import require_frames
from mmvidformer.video.index import index_of, repeat_frames
from mmvidformer.video.orientation import orientation_of


def encode_video(
    source: str, target: str, short_side: int = 256, key_frames: int = 16, crf: int = 20
) -> None:
    """Re-encode a video as H.264 in mp4, without sound, at a constant frame rate.

    All frames are kept; only where the rate varies, frames are left out and repeated, so that each
    is shown at its time. The result is complete or missing at any moment, and kept if it exists. As
    the decoders of training do, it ignores sample aspect ratios, and is turned upright by a
    rotation tag.

    Args:
        source: The video.
        target: The file to write.
        short_side: Short side in pixels. Smaller videos keep their size. Both sides are even.
        key_frames: Largest distance of key frames, in frames.
        crf: Quality of x264, from 0 (lossless) to 51.

    Raises:
        BadVideo: If the video cannot be decoded to its end, or there is no frame in it.
        OSError: If the target cannot be written.
    """
    if not os.path.exists(target):
        with write_atomically(target) as part:
            _encode(source, part, short_side, key_frames, crf)


def _encode(source: str, target: Path, short_side: int, key_frames: int, crf: int) -> None:
    options = {"movflags": "faststart"}  # the index first, so that one read opens the file
    with open_container(source) as video, av.open(str(target), "w", "mp4", options) as output:
        stream, encoder = video_stream(video), None
        stream.codec_context.thread_count = 1
        converter = VideoReformatter()
        index = index_of(source)
        rate = index.times.constant_rate or Fraction(25)  # of a file that states none
        for number, frame in enumerate(repeat_frames(decode_frames(video, source), index)):
            if encoder is None:
                sides = frame.width, frame.height
                shrink = min(1, short_side / min(sides))
                width, height = (max(2, round(side * shrink / 2) * 2) for side in sides)
                orientation = orientation_of(frame)
                # Without the loop filter and arithmetic coding, decoding takes a third less time.
                tuning = {"crf": str(crf), "tune": "fastdecode"}
                encoder = output.add_stream("libx264", rate, tuning)
                codec = encoder.codec_context
                codec.width, codec.height = (
                    (height, width) if orientation.turns % 2 else (width, height)
                )
                codec.time_base, codec.gop_size = 1 / rate, key_frames
                codec.pix_fmt, codec.thread_count = "yuv420p", 1
            # The colors of RGB, which training sees, need no tags, and its planes can be turned.
            image = converter.reformat(
                frame, width, height, "rgb24", interpolation="BICUBIC", threads=1
            )
            image = VideoFrame.from_ndarray(orientation.apply(image.to_ndarray()), "rgb24")
            image = converter.reformat(image, format="yuv420p", threads=1)
            image.pts, image.time_base = number, codec.time_base
            output.mux(encoder.encode(image))
        if encoder is None:
            require_frames(source, 0)
        output.mux(encoder.encode())
