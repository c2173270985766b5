"""Long videos in test mode, a few clips at a time."""

from collections.abc import Mapping

import cv2
from mmaction.datasets import VideoDataset
from mmengine.dist import all_gather_object, get_dist_info
from tqdm import tqdm

from mmvidformer.datasets.decoding.check_files import read_files
from mmvidformer.datasets.decoding.errors import BadVideo, fault_of_file
from mmvidformer.datasets.transforms.sampling import TileFrames, count_tiles
from mmvidformer.registry import DATASETS


@DATASETS.register_module()
class TiledVideoDataset(VideoDataset):
    """A ``VideoDataset`` whose samples are runs of clips of a video instead of whole videos.

    A video of any length is tested in the memory of ``clips_per_item`` clips, and its clips are
    shared among dataloader workers and ranks. ``mmvidformer.VideoAccuracy`` averages the scores of
    each video. The clips are those of the pipeline's ``mmvidformer.TileFrames``.

    The number of clips follows from the frame count in the header of each video. Each rank reads
    the headers of a part of the videos, and ranks share the counts, so all must build the dataset.
    A file without a frame count is one sample, which raises when it is read.

    Adds the keys ``tiles`` (first clip, number of clips) and ``video_id`` (line of the annotation
    file, from 0).

    Args:
        clips_per_item: Largest number of clips in a sample.
        **kwargs: Arguments of ``VideoDataset``.

    Raises:
        ValueError: If the pipeline has no ``TileFrames``, or ``clips_per_item`` is not positive.
        BadVideo: On reading a sample whose file has no frame count.
    """

    def __init__(self, *args, clips_per_item: int = 8, **kwargs) -> None:
        if clips_per_item < 1:
            raise ValueError(f"clips_per_item must be at least 1, got {clips_per_item}")
        self.clips_per_item = clips_per_item
        super().__init__(*args, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the annotation file and the headers of the videos."""
        spans = [t.span for t in self.pipeline.transforms if isinstance(t, TileFrames)]
        if len(spans) != 1:
            raise ValueError(
                "the pipeline of a TiledVideoDataset needs one mmvidformer.TileFrames, "
                f"it has {len(spans)}: {self.pipeline}"
            )
        samples = []
        self.faults: dict[str, BadVideo] = {}
        videos = super().load_data_list()
        for number, (video, frames) in enumerate(zip(videos, _count_frames(videos), strict=True)):
            if isinstance(frames, Exception):
                self.faults[video["filename"]], frames = frames, 0
            tiles = count_tiles(frames, spans[0])
            for first in range(0, tiles, self.clips_per_item):
                run = first, min(self.clips_per_item, tiles - first)
                samples.append({**video, "video_id": number, "tiles": run})
        return samples

    def prepare_data(self, idx: int) -> dict:
        """Read a sample."""
        fault = self.faults.get(self.get_data_info(idx)["filename"])
        if fault is not None:
            raise fault
        return super().prepare_data(idx)


def _count_frames(videos: list[dict]) -> list[int | Exception]:
    """Frames of each video, or what is wrong with it; each file is opened by one rank."""
    rank, ranks = get_dist_info()
    part = videos[rank::ranks]
    counted = read_files(_frame_count, part, workers=8)
    bar = tqdm(counted, "headers", len(part), unit="video", disable=True if rank else None)
    parts = all_gather_object(list(bar))
    return [parts[i % ranks][i // ranks] for i in range(len(videos))]


def _frame_count(info: Mapping) -> int:
    path = info["filename"]
    capture = cv2.VideoCapture(path)
    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    capture.release()
    if count < 1:
        raise BadVideo(path, fault_of_file(path) or "its header states no frame count")
    return count
