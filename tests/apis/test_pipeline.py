import re
from pathlib import Path

import decord
import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmvidformer.apis import VideoPipeline, normalize
from mmvidformer.video.writer import VideoOutput


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
    with pytest.raises(ValueError, match=r"text.mp4: (?!.*Errno)"):
        pipeline.open(text)
    text.write_bytes(b"")
    with pytest.raises(ValueError, match="text.mp4: the file is empty"):
        pipeline.open(text)


def test_clips_that_repeat_frames_are_named_once(cfg, tmp_path: Path, caplog) -> None:
    """A clip takes 4 frames at interval 2; from 7 frames on it repeats none."""
    pipeline = VideoPipeline(cfg, clips=1)
    for frames in (1, 6, 7, 8):
        video = tmp_path / f"{frames}.mp4"
        with VideoOutput(video, fps=12) as output:
            for number in range(frames):
                output.add(np.full((32, 64, 3), number, np.uint8))
        opened = pipeline.open(video)
        for _ in range(2):
            pipeline.read(opened)
    pipeline.read(pipeline.open(tmp_path / "8.mp4"), (2, 4))
    found = [re.search(r"take (\d+), .* only (\d+):", text) for text in caplog.messages]
    assert [match.groups() for match in found] == [("8", "1"), ("8", "6"), ("8", "3")]
    assert caplog.records[0].getMessage().startswith(str(tmp_path / "1.mp4"))


def test_configs_without_a_pipeline_for_videos_are_refused(cfg) -> None:
    with pytest.raises(ValueError, match="no pipeline in test_dataloader or val_dataloader"):
        VideoPipeline(Config({"model": {}}))
    cfg.test_dataloader.dataset.pipeline[:1] = []
    with pytest.raises(ValueError, match="does not read video files: SampleFrames, DecordDecode"):
        VideoPipeline(cfg)
