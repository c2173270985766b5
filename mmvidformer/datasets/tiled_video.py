"""Long videos in test mode, a few clips at a time."""

from concurrent.futures import ThreadPoolExecutor

import cv2
from mmaction.datasets import VideoDataset

from mmvidformer.datasets.decoding.errors import BadVideo
from mmvidformer.datasets.transforms.sampling import TileFrames, count_tiles
from mmvidformer.registry import DATASETS


@DATASETS.register_module()
class TiledVideoDataset(VideoDataset):
    """A ``VideoDataset`` whose items are runs of clips of a video instead of whole videos.

    A video of any length is tested in the memory of ``clips_per_item`` clips, and its clips are
    shared among loader workers and processes. ``mmvidformer.VideoAccuracy`` puts the scores of a
    video together again. The clips are those of the pipeline's ``mmvidformer.TileFrames``; their
    number follows from the frame count that the file's header states.

    Adds the keys ``tiles`` (first clip, number of clips) and ``video_id`` (the line of the
    annotation file, from 0) to those of ``VideoDataset``.

    Args:
        clips_per_item: Most clips of an item.
        **kwargs: Arguments of ``VideoDataset``.

    A file that is missing, or states no frame count, is one item, which raises when it is read.

    Raises:
        ValueError: If the pipeline has no ``TileFrames``, or ``clips_per_item`` is not positive.
        BadVideo: On reading an item whose file states no frame count.
    """

    def __init__(self, *args, clips_per_item: int = 8, **kwargs) -> None:
        if clips_per_item < 1:
            raise ValueError(f"clips_per_item must be at least 1, got {clips_per_item}")
        self.clips_per_item = clips_per_item
        super().__init__(*args, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the annotation file and the headers of the videos."""
        tilers = [t for t in self.pipeline.transforms if isinstance(t, TileFrames)]
        if len(tilers) != 1:
            raise ValueError(
                "the pipeline of a TiledVideoDataset needs one mmvidformer.TileFrames, "
                f"it has {len(tilers)}: {self.pipeline}"
            )
        videos = super().load_data_list()
        with ThreadPoolExecutor(8) as pool:
            lengths = list(pool.map(_frame_count, [video["filename"] for video in videos]))
        self.uncounted = {
            video["filename"] for video, length in zip(videos, lengths, strict=True) if length < 1
        }
        return [
            {**video, "video_id": number, "tiles": (first, min(self.clips_per_item, tiles - first))}
            for number, (video, length) in enumerate(zip(videos, lengths, strict=True))
            for tiles in [count_tiles(length, tilers[0].span)]
            for first in range(0, tiles, self.clips_per_item)
        ]

    def prepare_data(self, idx: int) -> dict:
        """Read an item."""
        path = self.get_data_info(idx)["filename"]
        if path in self.uncounted:
            raise BadVideo(path, "is missing, is no video, or its header states no frame count")
        return super().prepare_data(idx)


def _frame_count(path: str) -> int:
    capture = cv2.VideoCapture(path)
    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    capture.release()
    return count
