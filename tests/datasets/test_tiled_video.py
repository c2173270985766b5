"""Long videos as runs of clips, which are counted before a test."""

import cv2
import pytest
import torch
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope

from mmvidformer.datasets import tiled_video
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


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_each_video_is_opened_by_one_rank(tiny_videos, monkeypatch, ranks) -> None:
    """All ranks then have the same samples."""
    opened, counts = [], {}
    parts = [[24] * len(range(rank, 7, ranks)) for rank in range(ranks)]
    read = tiled_video.read_files

    def record_and_read(function, infos, workers):
        opened.extend(info["filename"] for info in infos)
        return read(function, infos, workers=0)

    monkeypatch.setattr(tiled_video, "read_files", record_and_read)
    for rank in range(ranks):
        monkeypatch.setattr(tiled_video, "get_dist_info", lambda rank=rank: (rank, ranks))
        monkeypatch.setattr(
            tiled_video,
            "all_gather_object",
            lambda own, rank=rank: counts.update({rank: own}) or parts,
        )
        tiled(tiny_videos)
    assert len(opened) == len(set(opened)) == 7
    assert [count for rank in range(ranks) for count in counts[rank]] == [24] * 7

    monkeypatch.setattr(tiled_video, "all_gather_object", lambda own: list(counts.values()))
    dataset = tiled(tiny_videos, clips_per_item=8)
    assert [dataset.get_data_info(i)["tiles"] for i in range(len(dataset))] == [(0, 6)] * 7


def test_counts_belong_to_their_videos(tiny_videos, monkeypatch) -> None:
    """Rank i of n counts every n-th video, from the i-th."""
    monkeypatch.setattr(tiled_video, "get_dist_info", lambda: (1, 2))
    monkeypatch.setattr(
        tiled_video, "all_gather_object", lambda own: [[4, 8, 12, 16], [20, 24, 28]]
    )
    dataset = tiled(tiny_videos, clips_per_item=8)
    tiles = [dataset.get_data_info(i)["tiles"][1] for i in range(7)]
    assert tiles == [1, 5, 2, 6, 3, 7, 4]


def test_nothing_is_opened_before_the_dataset_is_used(tiny_videos, monkeypatch) -> None:
    monkeypatch.setattr(cv2, "VideoCapture", lambda path: pytest.fail("opened"))
    tiled(tiny_videos, lazy_init=True)


def test_invalid_datasets(tiny_videos, tmp_path) -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        tiled(tiny_videos, clips_per_item=0)
    with pytest.raises(ValueError, match="needs one mmvidformer.TileFrames, it has 0"):
        tiled(tiny_videos, pipeline=PIPELINE[:1])
    (tmp_path / "list.txt").write_text("gone.mp4 0\n")
    broken = type(tiny_videos)(tmp_path, tmp_path / "list.txt", tmp_path / "list.txt")
    unread = tiled(broken)
    assert len(unread) == 1
    with pytest.raises(BadVideo, match=r"gone\.mp4: there is no such file"):
        unread[0]
