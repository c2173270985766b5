"""Frames per second of samples, and numbers of frames that tell their times."""

from collections.abc import Mapping

from mmvidformer.video.errors import BadVideo, path_of
from mmvidformer.video.index import rate_fault
from mmvidformer.video.video import Video


def known_rate(results: Mapping) -> float:
    """Return the frames per second of a sample; raises ``BadVideo`` if they are unknown."""
    if not results.get("avg_fps"):
        raise BadVideo(path_of(results), "its frame rate is unknown")
    return results["avg_fps"]


def number_by_time(results: dict) -> None:
    """Number the frames of a sample by their seconds, before any are chosen.

    Changed keys: ``video_reader``, ``total_frames`` and ``avg_fps``, if the rate of a video file
    varies (``Video.at_constant_rate``).

    Raises:
        BadVideo: As ``constant_rate``.
    """
    video = results.get("video_reader")  # else a folder of frames, an array or saved features
    if isinstance(video, Video):
        video = video.at_constant_rate()
        facts = dict(total_frames=len(video), avg_fps=video.get_avg_fps())
        results.update(facts, video_reader=video)
    constant_rate(results)


def constant_rate(results: Mapping) -> float:
    """Return the frames per second of a sample, for transforms that need the times of frames.

    Raises:
        BadVideo: If the rate is unknown, or that of a video file varies and its frames are not
            numbered by time, such as with decord.
    """
    rate, video = known_rate(results), results.get("video_reader")
    if video is None or isinstance(video, Video) and video.frame_times.is_constant:
        return rate
    fault = rate_fault(results["filename"], rate)
    if fault:
        raise BadVideo(path_of(results), fault)
    return rate
