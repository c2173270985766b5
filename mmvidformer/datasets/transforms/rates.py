"""Frames per second of samples, and numbers of frames that tell their times."""

from collections.abc import Mapping

from mmvidformer.video.containers import rate_fault
from mmvidformer.video.errors import BadVideo, path_of
from mmvidformer.video.readers import VideoReader


def known_rate(results: Mapping) -> float:
    """Return the frames per second of a sample; raises ``BadVideo`` if they are unknown."""
    if not results.get("avg_fps"):
        raise BadVideo(path_of(results), "its frame rate is unknown")
    return results["avg_fps"]


def number_by_time(results: dict) -> None:
    """Number the frames of a sample by their seconds, before any are chosen.

    Changed keys: ``total_frames`` and ``avg_fps``, if the rate of a video file varies
    (``VideoReader.number_by_time``).

    Raises:
        BadVideo: As ``constant_rate``.
    """
    reader = results.get("video_reader")  # else a folder of frames, an array or saved features
    if isinstance(reader, VideoReader):
        reader.number_by_time()
        results.update(total_frames=len(reader), avg_fps=reader.get_avg_fps())
    constant_rate(results)


def constant_rate(results: Mapping) -> float:
    """Return the frames per second of a sample, for transforms that need the times of frames.

    Raises:
        BadVideo: If the rate is unknown, or that of a video file varies and its frames are not
            numbered by time, such as with decord.
    """
    fps, reader = known_rate(results), results.get("video_reader")
    is_numbered = reader is None or getattr(reader, "is_numbered_by_time", False)
    if not is_numbered and (fault := rate_fault(results["filename"], fps)):
        raise BadVideo(path_of(results), fault)
    return fps
