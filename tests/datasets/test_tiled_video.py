"""Long videos as runs of clips."""

import pytest
import torch
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope

from mmvidformer.datasets.decoding.errors import BadVideo
from mmvidformer.datasets.tiled_video import TiledVideoDataset

PIPELINE = [
    {"type": "DecordInit"},
    {"type": "mmvidformer.TileFrames", "clip_len": 2, "frame_interval": 2},
    {"type": "DecordDecode"},
    {"type": "FormatShape", "input_format": "NCTHW"},
    {"type": "PackActionInputs", "meta_keys": ("video_id", "num_clips")},
]


def tiled(videos, **kwargs) -> TiledVideoDataset:
    kwargs = {"pipeline": PIPELINE, "clips_per_item": 4, **kwargs}
    with DefaultScope.overwrite_default_scope("mmaction"):
        return TiledVideoDataset(
            str(videos.val), data_prefix={"video": str(videos.root)}, test_mode=True, **kwargs
        )


def test_items_of_a_video_make_up_the_whole_video(tiny_videos) -> None:
    dataset = tiled(tiny_videos)
    assert len(dataset) == 7 * 2  # 24 frames: 6 clips of 4 frames, at most 4 per item
    items = [dataset[i] for i in range(2)]
    assert [len(item["inputs"]) for item in items] == [4, 2]
    assert [item["data_samples"].video_id for item in items] == [0, 0]
    assert [item["data_samples"].num_clips for item in items] == [4, 2]
    with DefaultScope.overwrite_default_scope("mmaction"):
        whole = Compose(PIPELINE)(
            {**dataset.get_data_info(0), "tiles": (0, 6), "start_index": 0, "modality": "RGB"}
        )
    torch.testing.assert_close(torch.cat([item["inputs"] for item in items]), whole["inputs"])
    assert len({float(clip.float().mean()) for clip in whole["inputs"]}) == 6


def test_invalid_datasets(tiny_videos, tmp_path) -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        tiled(tiny_videos, clips_per_item=0)
    with pytest.raises(ValueError, match="needs one mmvidformer.TileFrames, it has 0"):
        tiled(tiny_videos, pipeline=PIPELINE[:1])
    (tmp_path / "list.txt").write_text("gone.mp4 0\n")
    broken = type(tiny_videos)(tmp_path, tmp_path / "list.txt", tmp_path / "list.txt")
    unread = tiled(broken)
    assert len(unread) == 1
    with pytest.raises(BadVideo, match=r"gone\.mp4: is missing, is no video"):
        unread[0]
