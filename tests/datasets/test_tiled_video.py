"""Counting the clips of long videos before a test."""

import cv2
import pytest
from mmengine.registry import DefaultScope

from mmvidformer.datasets import TiledVideoDataset, tiled_video

PIPELINE = [{"type": "mmvidformer.TileFrames", "clip_len": 2, "frame_interval": 2}]


def build(videos):
    with DefaultScope.overwrite_default_scope("mmaction"):
        return TiledVideoDataset(
            str(videos.val), PIPELINE, data_prefix={"video": str(videos.root)}, test_mode=True
        )


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_each_video_is_opened_by_one_rank(tiny_videos, monkeypatch, ranks):
    """What a rank counts goes to all others, which have the same samples then."""
    opened, counts = [], {}
    parts = [[24] * len(range(rank, 7, ranks)) for rank in range(ranks)]
    read = tiled_video.read_files

    def read_noting(function, infos, workers):
        opened.extend(info["filename"] for info in infos)
        return read(function, infos, workers=0)

    monkeypatch.setattr(tiled_video, "read_files", read_noting)
    for rank in range(ranks):
        monkeypatch.setattr(tiled_video, "get_dist_info", lambda rank=rank: (rank, ranks))
        monkeypatch.setattr(
            tiled_video,
            "all_gather_object",
            lambda own, rank=rank: counts.update({rank: own}) or parts,
        )
        build(tiny_videos)
    assert len(opened) == len(set(opened)) == 7
    assert [count for rank in range(ranks) for count in counts[rank]] == [24] * 7

    monkeypatch.setattr(tiled_video, "all_gather_object", lambda own: list(counts.values()))
    dataset = build(tiny_videos)
    assert len(dataset) == 7  # 24 frames: 6 clips of 4 frames
    assert [dataset.get_data_info(i)["tiles"] for i in range(7)] == [(0, 6)] * 7


def test_counts_go_to_their_videos(tiny_videos, monkeypatch):
    """The i-th rank counts each i-th video."""
    monkeypatch.setattr(tiled_video, "get_dist_info", lambda: (1, 2))
    monkeypatch.setattr(
        tiled_video, "all_gather_object", lambda own: [[4, 8, 12, 16], [20, 24, 28]]
    )
    dataset = build(tiny_videos)
    tiles = [dataset.get_data_info(i)["tiles"][1] for i in range(7)]
    assert tiles == [1, 5, 2, 6, 3, 7, 4]


def test_nothing_is_opened_before_the_dataset_is_used(tiny_videos, monkeypatch):
    monkeypatch.setattr(cv2, "VideoCapture", lambda path: pytest.fail("opened"))
    with DefaultScope.overwrite_default_scope("mmaction"):
        TiledVideoDataset(str(tiny_videos.val), PIPELINE, lazy_init=True)
