"""Checkpoints by address, in the tools and MMAction2: logits are those of the reference models."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from mmaction.apis import init_recognizer
from mmaction.apis.inferencers import MMAction2Inferencer
from mmengine import fileio
from mmengine.config import Config
from mmengine.fileio import list_from_file
from mmengine.model import PretrainedInit
from mmengine.registry import DefaultScope
from mmengine.runner import CheckpointLoader
from torch import Tensor, nn
from transformers import (
    TimesformerConfig,
    TimesformerForVideoClassification,
    VivitConfig,
    VivitForVideoClassification,
)

from mmvidformer.apis import Recognizer
from mmvidformer.checkpoints import published
from mmvidformer.checkpoints.video_models import from_timesformer, to_other
from mmvidformer.registry import MODELS
from tests.cli.flax_checkpoints import flax, packed

CLASSES = ["red", "green", "blue"]
LABELS = {"id2label": dict(enumerate(CLASSES)), "label2id": {c: i for i, c in enumerate(CLASSES)}}
SIZES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)


def shake(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    return model.eval()


def saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def timesformer(tmp_path: Path) -> nn.Module:
    sizes = dict(image_size=32, patch_size=16, num_frames=4)
    model = shake(TimesformerForVideoClassification(TimesformerConfig(**sizes, **SIZES, **LABELS)))
    model.save_pretrained(tmp_path / "hf")
    settings = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    (tmp_path / "hf" / "preprocessor_config.json").write_text(json.dumps(settings))
    return model


def vivit(tmp_path: Path, frames: int = 4, side: int = 32) -> nn.Module:
    sizes = dict(image_size=side, tubelet_size=[2, 16, 16], num_frames=frames)
    model = shake(VivitForVideoClassification(VivitConfig(**sizes, **SIZES, **LABELS)))
    model.save_pretrained(tmp_path / "hf")
    return model


def in_dialect(model: nn.Module, dialect: str) -> dict[str, Tensor]:
    state = from_timesformer(model.state_dict()).state
    return to_other(state, "divided_space_time", dialect)


@dataclass
class Case:
    """A checkpoint on the server: its address, config, and reference model."""

    address: str
    config: Path
    model: nn.Module

    def logits(self, clip: Tensor) -> Tensor:
        with torch.no_grad():
            return self.model(clip.transpose(1, 2)).logits


FORMATS = ("official", "huggingface", "mmaction", "vivit", "scenic")


@pytest.fixture
def case(request: pytest.FixtureRequest, web, tmp_path: Path, make_config: Callable) -> Case:
    """A published checkpoint; ``published://mine`` is its name."""
    kind = request.param
    backbone: dict = dict(
        _delete_=True,
        type="mmvidformer.ViViT",
        arch=dict(embed_dims=16, depth=2, num_heads=2),
        img_size=32,
        clip_len=4,
    )
    if kind in ("vivit", "scenic"):
        # The position table of scenic tells the grid of published clips only.
        clip = (32, 224) if kind == "scenic" else (4, 32)
        model = vivit(tmp_path, *clip)
        backbone |= dict(zip(("clip_len", "img_size"), clip, strict=True))
        backbone |= dict(scheme="spacetime", stem=dict(tubelet=(2, 16, 16)))
    else:
        model = timesformer(tmp_path)
        backbone["type"] = "mmvidformer.TimeSformer"
    changes: dict = {"model.backbone": backbone}
    pixels = {"mean": [127.5] * 3, "std": [63.75] * 3}
    changes["model.data_preprocessor"] = dict(
        type="ActionDataPreprocessor", format_shape="NCTHW", **pixels
    )
    config = make_config(kind, **changes)
    if kind == "scenic":
        cfg = Config.fromfile(config)
        for loader in (cfg.test_dataloader, cfg.val_dataloader):
            steps = loader.dataset.pipeline
            steps[1].clip_len, steps[3].scale, steps[4].crop_size = 32, (-1, 224), 224
        cfg.dump(config)
    if kind in ("huggingface", "vivit"):
        web.add_repository("org/name", tmp_path / "hf")
        address = "hf://org/name"
    elif kind == "official":
        content = {"model_state": in_dialect(model, "official"), "epoch": 14}
        content["cfg"] = yaml.safe_dump({"DATA": {"MEAN": [0.5] * 3, "STD": [0.25] * 3}})
        address = web.add("/s/a.pyth", saved(content))
    elif kind == "mmaction":
        content = {"state_dict": in_dialect(model, "mmaction"), "meta": {"epoch": 15}}
        address = web.add("/a.pth", saved(content))
    else:
        address = web.add("/vivit/checkpoint", packed(flax(model)))
    return Case(address, config, model)


@pytest.mark.parametrize("case", FORMATS, indirect=True)
def test_logits_are_those_of_the_reference(case: Case, tiny_videos, tmp_path, main_of, test):
    recognizer = Recognizer(str(case.config), case.address)
    model = recognizer.model
    if "checkpoint" not in case.address:  # MMAction2 reads files of PyTorch
        model = init_recognizer(str(case.config), case.address, "cpu")
    video = tiny_videos.root / "val_0.mp4"
    sample = recognizer.pipeline.read(recognizer.pipeline.open(video))
    batch = {key: [sample[key]] for key in ("inputs", "data_samples")}
    clip = model.data_preprocessor(batch)["inputs"].flatten(0, 1)
    expected = case.logits(clip)
    with torch.no_grad():
        found = model.cls_head.fc_cls(model.backbone(clip))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)

    torch.testing.assert_close(
        torch.from_numpy(recognizer(video).scores["class"]), expected[0], atol=1e-4, rtol=1e-4
    )
    records = tmp_path / "records.json"
    main_of("demo")([str(case.config), case.address, str(video), "--json", str(records)])
    (record,) = map(json.loads, records.read_text().splitlines())
    (labels,) = recognizer.names.values()
    for best in record["top"]:
        share = expected[0].softmax(0)[labels.index(best["label"])].item()
        assert best["score"] == pytest.approx(share, abs=1e-4)
    work_dir, dump = tmp_path / "work", tmp_path / "scores.npz"
    test([str(case.config), case.address, "--work-dir", str(work_dir), "--dump", str(dump)])
    with np.load(dump) as arrays:
        np.testing.assert_allclose(arrays["scores"][0], expected[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("case", ["huggingface"], indirect=True)
def test_inferencer_of_mmaction2(case: Case, tiny_videos) -> None:
    video = str(tiny_videos.root / "val_0.mp4")
    inferencer = MMAction2Inferencer(rec=str(case.config), rec_weights=case.address, device="cpu")
    (found,) = inferencer(video, print_result=False)["predictions"]
    expected = Recognizer(str(case.config), case.address)(video).scores["class"]
    np.testing.assert_allclose(found["rec_scores"][0], expected, atol=1e-5)


@pytest.mark.parametrize("case", ["huggingface"], indirect=True)
def test_names_and_pixels_of_a_checkpoint(case: Case, tiny_videos, caplog, monkeypatch) -> None:
    recognizer = Recognizer(str(case.config), case.address)
    assert recognizer.names == {"class": CLASSES}
    head = nn.ModuleDict({"fc_cls": nn.Linear(16, 3)})
    PretrainedInit(checkpoint=case.address, prefix="cls_head.")(head)  # init_cfg
    assert torch.equal(head["fc_cls"].weight, case.model.classifier.weight)
    cfg = Config.fromfile(case.config)
    cfg.model.data_preprocessor.mean = [114.75] * 3
    warnings = []
    monkeypatch.setattr("mmvidformer.engine.loading.logger.warning", warnings.append)
    Recognizer(cfg, case.address)
    assert len(warnings) == 1 and "but hf://org/name needs [127.5, 127.5, 127.5]" in warnings[0]


def test_published_names(web, tmp_path, make_config, monkeypatch, main_of, tiny_videos, capsys):
    """The default weights of a config, with the class names of the table."""
    model = timesformer(tmp_path)
    del model.config.id2label
    address = web.add("/a.pyth", saved({"model_state": in_dialect(model, "official")}))
    row = dict(name="timesformer_tiny", address=address, format="timesformer", classes="sthv2")
    (tmp_path / "published.yml").write_text(yaml.safe_dump([row]))
    monkeypatch.setattr(published, "TABLE", tmp_path / "published.yml")
    published.rows.cache_clear()
    content = CheckpointLoader.load_checkpoint("published://timesformer_tiny", "cpu", "silent")
    names = content["meta"]["dataset_meta"]["classes"]
    assert len(names) == 174 and names[0] == "Approaching something with your camera"
    changes = dict(type="mmvidformer.TimeSformer", img_size=32, clip_len=4, _delete_=True)
    changes["arch"] = dict(embed_dims=16, depth=2, num_heads=2)
    config = make_config("timesformer_tiny", **{"model.backbone": changes})
    recognizer = Recognizer(str(config))  # 3 classes, so the 174 names are ignored
    assert recognizer.names == {"class": ["0", "1", "2"]}
    published.rows.cache_clear()


def test_mmactions_own_timesformer_keeps_its_names(tmp_path: Path) -> None:
    backbone = dict(
        type="TimeSformer", num_frames=4, img_size=32, patch_size=16, embed_dims=16,
        num_heads=2, num_transformer_layers=2,
    )  # fmt: skip
    head = dict(type="TimeSformerHead", num_classes=3, in_channels=16)
    cfg = Config(dict(model=dict(type="Recognizer3D", backbone=backbone, cls_head=head)))
    with DefaultScope.overwrite_default_scope("mmaction"):
        theirs = shake(MODELS.build(cfg.model))
    torch.save({"state_dict": theirs.state_dict()}, tmp_path / "a.pth")
    loaded = init_recognizer(cfg, str(tmp_path / "a.pth"), "cpu").state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in theirs.state_dict().items())


def test_unknown_names_are_not_changed(tmp_path: Path) -> None:
    content = {"state_dict": {"conv1.weight": torch.ones(2)}, "epoch": 3}
    torch.save(content, tmp_path / "a.pth")
    loaded = CheckpointLoader.load_checkpoint(str(tmp_path / "a.pth"), "cpu", "silent")
    assert loaded["epoch"] == 3 and list(loaded["state_dict"]) == ["conv1.weight"]


def test_names_of_classes_as_a_text_file() -> None:
    assert list_from_file("labels://kinetics400")[:2] == ["abseiling", "air drumming"]
    assert fileio.get("labels://kinetics400").startswith(b"abseiling\nair drumming\n")
    with pytest.raises(
        KeyError, match="no list of class names named 'k400'; choose from camera_motion, diving48"
    ):
        list_from_file("labels://k400")
    with pytest.raises(KeyError, match="no list of class names named '../labels/kinetics400'"):
        list_from_file("labels://../labels/kinetics400")  # nothing outside of the folder


@pytest.mark.parametrize("case", ["vivit", "huggingface"], indirect=True)
def test_folders_and_the_start_of_a_fine_tuning(
    case: Case, tmp_path: Path, train, main_of, tiny_videos
) -> None:
    """A HuggingFace folder in ``load_from``, and an address as start weights."""
    options = ["--cfg-options", f"load_from={tmp_path / 'hf'}", "optim_wrapper.optimizer.lr=0"]
    train([str(case.config), "--work-dir", str(tmp_path / "work"), *options])
    weights = torch.load(tmp_path / "work" / "epoch_3.pth", weights_only=True)["state_dict"]
    assert torch.equal(weights["cls_head.fc_cls.weight"], case.model.classifier.weight)
    (tiny_videos.root / "classes.txt").write_text("red\ngreen\nblue\n")
    options = ["--config", str(case.config), "--data", str(tiny_videos.root), "--prepare"]
    main_of("finetune")([*options, "--weights", case.address, "--work-dir", str(tmp_path / "own")])
    assert Config.fromfile(tmp_path / "own/finetune/config.py").load_from == case.address
