"""The sound of a video, for a film that is made of its pictures."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import av
from av.container import OutputContainer
from av.packet import Packet

from mmvidformer.errors import FULL
from mmvidformer.video.containers import TEXT

# Sound that an mp4 file takes as it is; other sound is encoded as AAC.
COPIED = ("aac", "mp3", "ac3", "eac3", "alac", "opus", "flac")
# Samples per second of encoded sound, which AAC and all players know.
RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)


class SoundTrack:
    """Adds the sound of a video to a film, whose time begins with the first picture of the video.

    A video without sound adds none, and sound that cannot be read or written ends early: the film
    goes on.

    Args:
        video: Path of the video.
        film: The open film, before its first packet.
        files: Closes the video.
    """

    def __init__(self, video: str | Path, film: OutputContainer, files: ExitStack) -> None:
        self._film = film
        self._packets: Iterator[Packet] = iter(())
        self._last: int | None = None  # time of the last packet, after which the next must be
        source = files.enter_context(av.open(str(video), **TEXT))
        if not source.streams.audio or not source.streams.video:
            return
        stream, pictures = source.streams.audio[0], source.streams.video[0]
        if stream.codec_context is None:  # FFmpeg does not know it
            return
        begin = Fraction((pictures.start_time or 0) * pictures.time_base)
        if stream.codec_context.codec.canonical_name in COPIED:
            self._track = film.add_stream_from_template(stream)
            self._packets = self._copied(source.demux(stream), begin)
        else:
            rate = next((rate for rate in RATES if rate >= stream.rate), RATES[-1])
            self._track = film.add_stream("aac", rate)
            self._packets = self._encoded(source.decode(stream), begin)

    def write_until(self, seconds: float) -> None:
        """Write what sounds before a time of the film; raise errors of its disk."""
        try:
            for packet in self._packets:
                if packet.pts * packet.time_base >= seconds:
                    self._packets = itertools.chain([packet], self._packets)
                    return
                if self._last is None or packet.dts > self._last:
                    self._last = packet.dts
                    self._film.mux(packet)
        except av.FFmpegError as error:
            if error.errno in FULL:
                raise
            self._packets = iter(())

    def _copied(self, packets: Iterator[Packet], begin: Fraction) -> Iterator[Packet]:
        for packet in packets:
            if packet.pts is None:  # the last one is empty
                continue
            shift = round(begin / packet.time_base)
            if packet.pts + (packet.duration or 0) < shift:
                continue  # but one, since the first is heard only with the one before
            packet.pts = packet.dts = packet.pts - shift
            packet.stream = self._track
            yield packet

    def _encoded(self, frames: Iterator[av.AudioFrame], begin: Fraction) -> Iterator[Packet]:
        for frame in frames:
            if frame.pts is None:
                continue
            samples = (frame.pts * frame.time_base - begin) * frame.sample_rate
            if samples >= 0:
                frame.pts, frame.time_base = round(samples), Fraction(1, frame.sample_rate)
                yield from self._track.encode(frame)
        yield from self._track.encode(None)
