"""HuggingFace's models of any number of classes a video, such as Kandinsky's of camera motion."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample
from transformers import (
    AutoModelForVideoClassification,
    TimesformerConfig,
    TimesformerForVideoClassification,
    VideoMAEConfig,
    VideoMAEForVideoClassification,
    VivitConfig,
    VivitForVideoClassification,
)

from mmvidformer.apis import Recognizer, checkpoint_config, create_model
from mmvidformer.apis.checkpoint_config import config_of_checkpoint
from mmvidformer.checkpoints import convert_file, read_model
from mmvidformer.checkpoints.metadata import PROBLEMS
from mmvidformer.tasks.table import TASKS

videoprism = pytest.importorskip("transformers.models.videoprism")  # not in 4.40
VideoPrismForVideoClassification = videoprism.VideoPrismForVideoClassification
VideoPrismVisionConfig = videoprism.VideoPrismVisionConfig
vjepa2 = pytest.importorskip("transformers.models.vjepa2")
VJEPA2Config = vjepa2.VJEPA2Config
VJEPA2ForVideoClassification = vjepa2.VJEPA2ForVideoClassification

NAMES = ("pan_left", "static", "zoom_in")
SMALL = dict(
    hidden_size=48,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=64,
    image_size=32,
    num_frames=4,
    patch_size=8,
    id2label=dict(enumerate(NAMES)),
    problem_type="multi_label_classification",
)
OF_VJEPA2 = dict(crop_size=32, frames_per_clip=4, num_pooler_layers=1, mlp_ratio=2.0)
OF_VIDEOPRISM = dict(num_spatial_layers=1, num_temporal_layers=1, tubelet_size=[1, 8, 8])
OF_PREDICTOR = dict(pred_hidden_size=24, pred_num_attention_heads=2, pred_num_hidden_layers=1)
MODELS: dict[str, tuple[Any, Any]] = {
    "timesformer": (TimesformerForVideoClassification, TimesformerConfig(**SMALL)),
    "videomae": (VideoMAEForVideoClassification, VideoMAEConfig(**SMALL)),
    "videoprism": (
        VideoPrismForVideoClassification,
        VideoPrismVisionConfig(**{**SMALL, "intermediate_size": 192}, **OF_VIDEOPRISM),
    ),
    "vivit": (VivitForVideoClassification, VivitConfig(**SMALL, tubelet_size=[2, 8, 8])),
    "vjepa2": (
        VJEPA2ForVideoClassification,
        VJEPA2Config(**SMALL, **OF_VJEPA2, **OF_PREDICTOR),
    ),
}


@pytest.fixture(autouse=True)
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """No shipped config has these sizes."""
    monkeypatch.setattr(checkpoint_config, "list_models", lambda: [])


def save(name: str, folder: Path, **changes: object) -> torch.nn.Module:
    """Write a model with random weights."""
    torch.manual_seed(0)
    model_class, config = MODELS[name]
    config = type(config)(**{**config.to_dict(), **changes})
    model = model_class(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    model.save_pretrained(folder)
    pixels = dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)
    if name == "videoprism":
        pixels = dict(do_normalize=False)
    (folder / "preprocessor_config.json").write_text(json.dumps(pixels))
    return model


def probabilities(name: str, model: torch.nn.Module, clips: torch.Tensor) -> torch.Tensor:
    """What transformers says of clips (N, 3, T, H, W) of type uint8; pixels are -1 or 0 to 1."""
    pixels = clips / 255 if name == "videoprism" else clips / 127.5 - 1
    # VideoPrism's logits have another axis.
    return model.eval()(pixels.transpose(1, 2)).logits.flatten(1).sigmoid()


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_scores_are_their_probabilities(name: str, tmp_path: Path) -> None:
    """Of their folder, of our file, and of a folder that is written again."""
    theirs = save(name, tmp_path / "theirs")
    clips = torch.randint(256, (2, 3, 4, 32, 32), dtype=torch.uint8)
    expected = probabilities(name, theirs, clips)
    assert expected.std() > 0.03
    convert_file(tmp_path / "theirs", tmp_path / "ours.pth")
    convert_file(tmp_path / "ours.pth", tmp_path / "back", to="huggingface")
    for source in ("theirs", "ours.pth", "back"):
        path = str(tmp_path / source)
        recognizer = Recognizer(config_of_checkpoint(path).cfg, path, "cpu")
        assert recognizer.task.name == "labels"
        assert recognizer.names == {"class": list(NAMES)}
        for clip, scores in zip(clips, expected, strict=True):
            batch = dict(inputs=[clip[None]], data_samples=[ActionDataSample()])
            (answer,) = recognizer.model.test_step(batch)
            torch.testing.assert_close(answer.pred_score, scores, atol=1e-5, rtol=1e-5)
    back = AutoModelForVideoClassification.from_pretrained(tmp_path / "back")
    assert back.config.problem_type == "multi_label_classification"
    torch.testing.assert_close(probabilities(name, back, clips), expected, atol=1e-5, rtol=1e-5)


def test_a_video_has_several_answers(tmp_path: Path) -> None:
    """All classes above a half, and no others; the pipeline reads any video."""
    save("videomae", tmp_path)
    recognizer = Recognizer(str(tmp_path), device="cpu", clips=1)
    assert repr(recognizer).startswith(f"{tmp_path} (")
    head = recognizer.model.cls_head
    with torch.no_grad():
        head.fc_cls.weight.zero_()
        head.fc_cls.bias.copy_(torch.tensor([2.0, -2.0, 2.0]))
    prediction = recognizer(np.zeros((8, 40, 40, 3), np.uint8))
    high, low = torch.tensor([2.0, -2.0]).sigmoid().tolist()
    assert prediction.scores["class"] == pytest.approx([high, low, high])


def test_a_single_class_and_a_plain_module(tmp_path: Path) -> None:
    save("videomae", tmp_path, id2label={0: "static"}, label2id={"static": 0})
    model = create_model(str(tmp_path), pretrained=True)
    assert model.num_classes == 1
    assert type(model.cls_head).__name__ == "MultiLabelHead"


def test_numbers_are_refused(tmp_path: Path) -> None:
    save("videomae", tmp_path, problem_type="regression")
    assert read_model(tmp_path)[1].info["task"] == "number"
    with pytest.raises(ValueError, match="answers the task 'number', for which no config is made"):
        config_of_checkpoint(tmp_path)


def test_problems_of_folders_are_tasks() -> None:
    assert PROBLEMS.keys() <= TASKS.keys()


def test_one_class_a_video_stays(tmp_path: Path) -> None:
    save("videomae", tmp_path, problem_type="single_label_classification")
    cfg = config_of_checkpoint(tmp_path).cfg
    assert "task" not in cfg
    convert_file(tmp_path, tmp_path / "back", to="huggingface")
    assert "problem_type" not in json.loads((tmp_path / "back" / "config.json").read_text())


def test_a_run_of_this_package_states_its_task(tmp_path: Path) -> None:
    save("videomae", tmp_path / "theirs")
    convert_file(tmp_path / "theirs", tmp_path / "ours.pth")
    cfg = config_of_checkpoint(tmp_path / "ours.pth").cfg
    content = torch.load(tmp_path / "ours.pth", weights_only=True)
    content["meta"] = {
        "cfg": cfg.pretty_text,
        **{key: value for key, value in content["meta"].items() if key != "task"},
    }
    torch.save(content, tmp_path / "run.pth")
    assert read_model(tmp_path / "run.pth")[1].info["task"] == "labels"
