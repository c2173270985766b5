from pathlib import Path

import decord
import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmvidformer.apis import VideoPipeline, normalize


def test_clips_of_a_video_are_the_center_views(cfg, model, tiny_videos) -> None:
    video = tiny_videos.root / "val_1.mp4"
    cfg.val_dataloader.dataset.pipeline[4] = dict(type="ThreeCrop", crop_size=32)
    pipeline = VideoPipeline(cfg, clips=2)
    sample = pipeline.read(pipeline.open(video))
    clips, numbers = sample["inputs"], sample["data_samples"].frame_inds.reshape(2, 4)
    assert clips.shape == (2, 3, 4, 32, 32)
    assert np.diff(numbers).tolist() == [[2, 2, 2], [2, 2, 2]]
    assert numbers[0, 0] < numbers[1, 0] <= 24 - 7
    frames = decord.VideoReader(str(video)).get_batch(numbers.flatten().tolist()).asnumpy()
    means = torch.from_numpy(frames).float().mean((1, 2)).reshape(2, 4, 3)
    torch.testing.assert_close(clips.float().mean((3, 4)).permute(0, 2, 1), means, atol=4, rtol=0)
    expected = (clips.float() - 127.5) / 127.5
    torch.testing.assert_close(normalize(model, clips), expected)


def test_segments_of_files_and_arrays(cfg, tiny_videos) -> None:
    """A video can be read several times; the frames of a segment are counted within it."""
    video = tiny_videos.root / "val_1.mp4"
    frames = decord.VideoReader(str(video)).get_batch(range(24)).asnumpy()
    pipeline = VideoPipeline(cfg)
    for opened in (pipeline.open(video), pipeline.open(frames, fps=12)):
        assert (opened["total_frames"], opened["avg_fps"]) == (24, 12)
        for first in (0, 12):
            sample = pipeline.read(opened, (first, first + 11))
            assert sample["data_samples"].frame_inds.tolist() == [first + i for i in (2, 4, 6, 8)]
            small = frames[first + 2, :, 16:48].mean((0, 1))
            found = sample["inputs"][0, :, 0].float().mean((1, 2)).numpy()
            np.testing.assert_allclose(found, small, atol=4)


def test_files_that_are_not_videos_are_named(cfg, tmp_path: Path) -> None:
    pipeline = VideoPipeline(cfg)
    with pytest.raises(FileNotFoundError, match="video .*none.mp4 does not exist"):
        pipeline.open(tmp_path / "none.mp4")
    text = tmp_path / "text.mp4"
    text.write_text("not a video")
    with pytest.raises(ValueError, match="cannot read .*text.mp4 as a video: "):
        pipeline.open(text)


def test_configs_without_a_pipeline_for_videos_are_refused(cfg) -> None:
    with pytest.raises(ValueError, match="no pipeline in test_dataloader or val_dataloader"):
        VideoPipeline(Config({"model": {}}))
    cfg.test_dataloader.dataset.pipeline[:1] = []
    with pytest.raises(ValueError, match="does not read video files: SampleFrames, DecordDecode"):
        VideoPipeline(cfg)
