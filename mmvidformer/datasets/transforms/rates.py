from collections.abc import Mapping

from mmvidformer.datasets.decoding.containers import rate_fault
from mmvidformer.datasets.decoding.errors import BadVideo, path_of


def known_rate(results: Mapping) -> float:
    """Return the frames per second of a sample; raises ``BadVideo`` if they are unknown."""
    if not results.get("avg_fps"):
        raise BadVideo(path_of(results), "its frame rate is unknown")
    return results["avg_fps"]


def constant_rate(results: Mapping) -> float:
    """Return the frames per second of a sample, for transforms that find frames by seconds.

    Raises:
        BadVideo: If the rate is unknown, or that of a video file is not constant (``rate_fault``).
    """
    fps = known_rate(results)
    is_video = "video_reader" in results  # else a folder of frames, an array or saved features
    if is_video and (fault := rate_fault(results["filename"], fps)):
        raise BadVideo(path_of(results), fault)
    return fps
