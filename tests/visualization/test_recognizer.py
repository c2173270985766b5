from pathlib import Path

import decord
import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmvidformer.engine.loading import load_recognizer
from mmvidformer.models.heads import MultiTaskHead
from mmvidformer.visualization import (
    build_view_pipeline,
    normalise,
    predict,
    read_names,
    read_video,
)


def test_weights_are_the_checkpoints(cfg, model, checkpoint) -> None:
    loaded = load_recognizer(cfg, checkpoint)
    assert not loaded.training
    for name, value in model.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], value)


def test_a_checkpoint_that_does_not_fit_is_refused(cfg, model, checkpoint) -> None:
    state = model.state_dict()
    torch.save({k: v for k, v in state.items() if "cls_head" not in k}, checkpoint)
    assert load_recognizer(cfg, checkpoint, head=False)
    with pytest.raises(ValueError, match=r"tiny.pth does not fit .* 2 missing \(cls_head.fc_cls.w"):
        load_recognizer(cfg, checkpoint)
    torch.save({**state, "neck.w": torch.zeros(1)}, checkpoint)
    with pytest.raises(ValueError, match=r"1 unexpected \(neck.w\)$"):
        load_recognizer(cfg, checkpoint)
    cfg.model.backbone.arch.embed_dims = 24
    torch.save(state, checkpoint)
    with pytest.raises(
        ValueError, match=r"\d+ of another shape \(.*embed.proj.weight \(16, 3, .* and \d+ more\)$"
    ):
        load_recognizer(cfg, checkpoint)
    with pytest.raises(FileNotFoundError, match="no.pth"):
        load_recognizer(cfg, "no.pth")


def test_clips_of_a_video_are_the_centre_views(cfg, model, tiny_videos) -> None:
    video = tiny_videos.root / "val_1.mp4"
    cfg.val_dataloader.dataset.pipeline[4] = dict(type="ThreeCrop", crop_size=32)
    clips, numbers = read_video(build_view_pipeline(cfg, clips=2), video)
    assert clips.shape == (2, 3, 4, 32, 32)
    assert np.diff(numbers).tolist() == [[2, 2, 2], [2, 2, 2]]
    assert numbers[0, 0] < numbers[1, 0] <= 24 - 7
    frames = decord.VideoReader(str(video)).get_batch(numbers.flatten().tolist()).asnumpy()
    means = torch.from_numpy(frames).float().mean((1, 2)).reshape(2, 4, 3)
    torch.testing.assert_close(clips.float().mean((3, 4)).permute(0, 2, 1), means, atol=4, rtol=0)
    expected = (clips.float() - 127.5) / 127.5
    torch.testing.assert_close(normalise(model, clips), expected)


def test_files_that_are_no_videos_are_named(cfg, tmp_path: Path) -> None:
    pipeline = build_view_pipeline(cfg)
    with pytest.raises(FileNotFoundError, match="no video .*none.mp4"):
        read_video(pipeline, tmp_path / "none.mp4")
    text = tmp_path / "text.mp4"
    text.write_text("not a video")
    with pytest.raises(ValueError, match="text.mp4 cannot be read as a video by DecordInit"):
        read_video(pipeline, text)


def test_a_config_without_pipeline_is_told() -> None:
    with pytest.raises(ValueError, match="no pipeline in val_dataloader or test_dataloader"):
        build_view_pipeline(Config({"model": {}}))


def test_predictions_name_the_class_of_each_task(model) -> None:
    torch.nn.init.zeros_(model.cls_head.fc_cls.weight)
    model.cls_head.fc_cls.bias.data = torch.tensor([0.0, 0.8, 0.2]).log().clamp(min=-50)
    features = torch.zeros(2, 16)
    assert predict(model, features) == ["class 1 80%"] * 2
    assert predict(model, features, ["left", "up", "down"]) == ["up 80%"] * 2
    model.cls_head = MultiTaskHead({"noun": 2, "verb": 3}, 16)
    model.cls_head.fc_cls.bias.data = torch.tensor([0.25, 0.75, 0.1, 0.2, 0.7]).log()
    torch.nn.init.zeros_(model.cls_head.fc_cls.weight)
    names = ["cup", "pan", "cut", "stir", "wash"]
    assert predict(model, features[:1], names) == ["noun pan 75%, verb wash 70%"]
    assert predict(model, features[:1]) == ["noun class 1 75%, verb class 2 70%"]


def test_names_must_be_as_many_as_classes(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text("left\nup\n")
    assert read_names(path, 2) == ["left", "up"]
    with pytest.raises(ValueError, match="names.txt has 2 names, the model 3 classes"):
        read_names(path, 3)
