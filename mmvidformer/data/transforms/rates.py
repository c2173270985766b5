"""Seconds of the frames of samples, and numbers of frames that tell their times."""

from collections.abc import Mapping

from mmvidformer.video.errors import path_of
from mmvidformer.video.facts import require_rate
from mmvidformer.video.index import require_constant_rate
from mmvidformer.video.times import FrameTimes
from mmvidformer.video.video import Video


def known_times(results: Mapping) -> FrameTimes:
    """Return the times of a sample's frames; raises ``BadVideo`` if its rate is unknown."""
    return FrameTimes(require_rate(path_of(results), results.get("avg_fps")))


def rescale(results: Mapping, count: float, rate: float | None) -> float:
    """Return how many frames of a sample last as long as ``count`` of another rate; None: as many.

    Raises:
        BadVideo: If there is another rate, and that of the sample is unknown.
    """
    return known_times(results).rescale(count, rate) if rate else count


def number_by_time(results: dict) -> FrameTimes:
    """Number the frames of a sample by their seconds, before any are chosen.

    Changed keys: ``video_reader``, ``total_frames`` and ``avg_fps``, if the rate of a video file
    varies (``Video.at_constant_rate``).

    Raises:
        BadVideo: As ``constant_times``.
    """
    video = results.get("video_reader")  # else a folder of frames, an array or saved features
    if isinstance(video, Video):
        video = video.at_constant_rate()
        facts = dict(total_frames=len(video), avg_fps=video.get_avg_fps())
        results.update(facts, video_reader=video)
    return constant_times(results)


def constant_times(results: Mapping) -> FrameTimes:
    """Return the times of a sample's frames, for transforms that need seconds.

    Raises:
        BadVideo: If the rate is unknown, or that of a video file varies and its frames are not
            numbered by time, such as with decord.
    """
    times, video = known_times(results), results.get("video_reader")
    if video is not None and not (isinstance(video, Video) and video.frame_times.is_constant):
        require_constant_rate(results["filename"], times.rate)
    return times
