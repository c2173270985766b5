"""Which frames the samplers choose, against their definitions."""

import numpy as np
import pytest
import torch
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope

from mmvidformer.datasets.decoding.errors import BadVideo
from mmvidformer.datasets.tiled_video import TiledVideoDataset
from mmvidformer.datasets.transforms.tile_frames import count_tiles
from mmvidformer.registry import METRICS, TRANSFORMS


def sample(total: int, fps: float = 30, start_index: int = 0, **transform) -> np.ndarray:
    built = TRANSFORMS.build(transform)
    results = built({"total_frames": total, "avg_fps": fps, "start_index": start_index})
    assert results["clip_len"] == transform["clip_len"]
    return results["frame_inds"].reshape(results["num_clips"], -1)


def test_span_is_that_of_the_official_code() -> None:
    """8 x 32: the step is 255 / 7; torch's linspace, cut to whole frames, as PySlowFast does."""
    span = {"type": "SpanFrames", "clip_len": 8, "frame_interval": 32, "test_mode": True}
    expected = torch.linspace(0, 255, 8).long().numpy()
    np.testing.assert_array_equal(sample(300, **span), expected[None])
    np.testing.assert_array_equal(expected, [0, 36, 72, 109, 145, 182, 218, 255])
    # At 25 frames a second the same time is 213.3 frames; the other clips start at k / K of the
    # 86.7 that are free.
    found = sample(300, fps=25, num_clips=3, **span)
    step = (256 * 25 / 30 - 1) / 7
    for k, clip in enumerate(found):
        start = (300 - 256 * 25 / 30) * k / 3
        np.testing.assert_array_equal(clip, np.floor(start + step * np.arange(8)))
    # Shorter videos end with their last frame, repeated.
    np.testing.assert_array_equal(sample(100, start_index=1, **span)[0][:4], [1, 37, 73, 100])
    np.testing.assert_array_equal(sample(100, start_index=1, **span)[0][4:], [100] * 4)


def test_spans_in_training_start_anywhere_they_fit() -> None:
    np.random.seed(0)
    span = {"type": "SpanFrames", "clip_len": 4, "frame_interval": 5, "target_fps": None}
    found = np.concatenate([sample(30, **span) for _ in range(300)])
    assert set(found[:, 0]) == set(range(10))  # the free start is below 10
    assert {int(np.ptp(clip)) for clip in found} == {19}


def test_tiles_follow_each_other() -> None:
    tile = {"type": "TileFrames", "clip_len": 3, "frame_interval": 4}
    found = sample(36, **tile)
    np.testing.assert_array_equal(found.flatten(), np.arange(0, 36, 4))
    # A tail of at least half a clip gets one, a shorter one does not.
    np.testing.assert_array_equal(sample(42, **tile)[3], [36, 40, 41])
    assert len(sample(41, **tile)) == 3
    np.testing.assert_array_equal(sample(2, start_index=1, **tile), [[1, 2, 2]])
    part = TRANSFORMS.build(tile)({"total_frames": 36, "start_index": 0, "tiles": (1, 2)})
    np.testing.assert_array_equal(part["frame_inds"], np.arange(12, 36, 4))


def test_tiles_of_the_paper() -> None:
    """Table 8: the clips that cover 410 seconds at 30 frames a second."""
    counts = [count_tiles(410 * 30, frames * 32) for frames in (8, 32, 64, 96)]
    assert counts == [48, 12, 6, 4]


@pytest.mark.parametrize(
    ("transform", "match"),
    [
        ({"type": "SpanFrames", "clip_len": 0, "frame_interval": 4}, "at least 1, got 0, 4 and 1"),
        ({"type": "TileFrames", "clip_len": 8, "frame_interval": 0}, "at least 1, got 8, 0"),
    ],
)
def test_wrong_arguments_of_samplers_are_named(transform: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        TRANSFORMS.build(transform)


def test_inverse_rescale_is_uniform_in_the_inverse() -> None:
    np.random.seed(0)
    rescale = TRANSFORMS.build({"type": "InverseRescale", "scale_range": (20, 40)})
    image = np.zeros((60, 90, 3), np.uint8)
    shorts = []
    for _ in range(1500):
        results = {"imgs": [image], "img_shape": (60, 90), "modality": "RGB"}
        results = rescale(results)
        shorts.append(results["short_edge"])
        height, width = results["imgs"][0].shape[:2]
        assert height == shorts[-1]
        assert abs(width - 1.5 * height) <= 0.5
    assert min(shorts) == 20
    assert max(shorts) == 40
    inverse = 1 / np.array(shorts)
    counts, _ = np.histogram(inverse, bins=[1 / 40.5, 1 / 32, 1 / 26.667, 1 / 22.857, 1 / 19.5])
    # Quarters of 1/40 to 1/20, up to the rounding to whole pixels.
    np.testing.assert_allclose(counts / 1500, 0.25, atol=0.05)
    assert np.mean(shorts) < 28.5  # 27.7 expected; 30 if it were uniform


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


def test_items_of_a_tiled_video_are_the_whole_video(tiny_videos) -> None:
    dataset = tiled(tiny_videos)
    assert len(dataset) == 7 * 2  # 24 frames: 6 clips of 4 frames, at most 4 an item
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


def test_tiled_videos_name_what_is_wrong(tiny_videos, tmp_path) -> None:
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


def test_scores_of_a_video_are_the_mean_over_its_clips() -> None:
    """A long item counts more than a short one."""
    items = [
        (0, 1, [0.0, 1.0], 0),
        (0, 3, [0.6, 0.4], 0),
        (7, 2, [0.1, 0.9], 1),
        (9, 1, [0.8, 0.2], 1),
    ]
    samples = [
        {
            "video_id": video,
            "num_clips": clips,
            "pred_score": torch.tensor(scores),
            "gt_label": torch.tensor([label]),
        }
        for video, clips, scores, label in items
    ]
    metric = METRICS.build(
        {"type": "VideoAccuracy", "metric_options": {"top_k_accuracy": {"topk": (1,)}}}
    )
    metric.process([], samples[:3])
    metric.process([], samples[3:])
    fused = metric.compute_metrics(metric.results)
    # Video 0: (0 + 3 * .6) / 4 = .45 against .55, so wrong; 7 right; 9 wrong.
    assert fused["top1"] == pytest.approx(1 / 3)
    metric.results[0]["num_clips"] = 0  # without the first item video 0 is right
    assert metric.compute_metrics(metric.results)["top1"] == pytest.approx(2 / 3)
    with pytest.raises(KeyError, match="num_clips.*meta_keys"):
        metric.process([], [{k: v for k, v in samples[0].items() if k != "num_clips"}])


def test_segments_of_the_official_code() -> None:
    """Views 1, 2, 3 of Something-Something: middle, start and end of each segment."""
    segment = {"type": "SegmentFrames", "clip_len": 4, "test_mode": True}
    # 30 frames, 29 / 4 = 7.25 a segment: 0-7, 7-14, 14-22, 22-29 (14.5 and 21.75 are rounded).
    found = sample(30, num_clips=3, **segment)
    np.testing.assert_array_equal(found, [[3, 10, 18, 25], [0, 7, 14, 22], [7, 14, 22, 29]])
    np.testing.assert_array_equal(sample(30, num_clips=2, **segment), found[:2])
    np.testing.assert_array_equal(sample(30, start_index=5, **segment), found[:1] + 5)
    np.testing.assert_array_equal(sample(2, **segment), [[0, 0, 0, 1]])  # 0-0, 0-0, 0-1, 1-1


def test_segments_in_training_are_drawn_whole() -> None:
    np.random.seed(0)
    segment = {"type": "SegmentFrames", "clip_len": 4}
    found = np.concatenate([sample(30, num_clips=2, **segment) for _ in range(200)])
    ranges = [set(range(0, 8)), set(range(7, 15)), set(range(14, 23)), set(range(22, 30))]
    assert [set(column) for column in found.T] == ranges


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [({"clip_len": 0}, "0"), ({"clip_len": 8, "num_clips": 4, "test_mode": True}, "3 test.*4")],
)
def test_wrong_segments_are_named(kwargs: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        TRANSFORMS.build({"type": "SegmentFrames", **kwargs})
