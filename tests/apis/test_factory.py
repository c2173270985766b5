"""Models by name and by address, with weights from a server on this machine."""

import io
from pathlib import Path

import pytest
import timm
import torch
import yaml
from mmengine.config import Config
from torch import nn
from transformers import TimesformerConfig, TimesformerForVideoClassification

import mmvidformer
from mmvidformer import config as configs
from mmvidformer import create_model, get_config, list_models
from mmvidformer.apis import Recognizer
from mmvidformer.apis.classifier import VideoClassifier
from mmvidformer.checkpoints import published
from mmvidformer.checkpoints.labels import read_labels
from mmvidformer.checkpoints.video_models import from_timesformer, to_other
from mmvidformer.config.shipped import config_folder
from mmvidformer.registry import MODELS

NAME = "timesformer_b_k400"
HUB = "hf://facebook/timesformer-base-finetuned-k400"
SIZES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
SMALL = dict(arch=dict(embed_dims=16, depth=2, num_heads=2), img_size=32, clip_len=4)


@pytest.fixture(scope="module")
def reference() -> TimesformerForVideoClassification:
    """A narrow TimeSformer for the clips and classes of Kinetics-400."""
    torch.manual_seed(0)
    names = dict(enumerate(read_labels("kinetics400")))
    model = TimesformerForVideoClassification(TimesformerConfig(id2label=names, **SIZES)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    return model


@pytest.fixture
def shipped(
    web, reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> TimesformerForVideoClassification:
    """The shipped config, narrower, and its published weights in two formats on the server."""
    arch = dict(embed_dims=16, depth=2, num_heads=2, mlp_ratio=4.0, _delete_=True)
    text = f"_base_ = {str(config_folder() / NAME) + '.py'!r}\n"
    text += f"model = dict(backbone=dict(arch=dict({arch})), cls_head=dict(in_channels=16))\n"
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / f"{NAME}.py").write_text(text)
    monkeypatch.setattr(configs, "config_folder", lambda: folder)

    buffer = io.BytesIO()
    state = from_timesformer(reference.state_dict()).state
    torch.save({"model_state": to_other(state, "divided_space_time", "official")}, buffer)
    address = web.add("/s/a.pyth", buffer.getvalue())
    rows = yaml.safe_load(published.TABLE.read_text())
    rows = [row for row in rows if row["name"] == NAME or row["address"] == HUB]
    rows[0]["address"] = address
    (tmp_path / "published.yml").write_text(yaml.safe_dump(rows))
    monkeypatch.setattr(published, "TABLE", tmp_path / "published.yml")
    published.rows.cache_clear()
    reference.save_pretrained(tmp_path / "hf")
    web.add_repository(HUB.removeprefix("hf://"), tmp_path / "hf")
    yield reference
    published.rows.cache_clear()


def logits_of(model: nn.Module, recognizer: Recognizer, video: Path) -> torch.Tensor:
    """Mean probabilities of the three views of the config, by the reference."""
    sample = recognizer.pipeline.read(recognizer.pipeline.open(video))
    clips = (sample["inputs"].float() - 114.75) / 57.375
    with torch.no_grad():
        return model(clips.transpose(1, 2)).logits


@pytest.mark.parametrize("source", [NAME, HUB])
def test_a_recognizer_in_one_line(source: str, shipped, tiny_videos) -> None:
    video = tiny_videos.root / "val_0.mp4"
    recognizer = Recognizer(source)
    top = recognizer(video).top(5)
    expected = logits_of(shipped, recognizer, video).softmax(-1).mean(0).topk(5)
    names = shipped.config.id2label
    assert [(number, name) for number, name, _ in top] == [
        (i, names[i]) for i in expected.indices.tolist()
    ]
    assert [p for _, _, p in top] == pytest.approx(expected.values.tolist(), abs=1e-4)


def test_a_recognizer_of_a_folder(shipped, tiny_videos, tmp_path: Path) -> None:
    video = tiny_videos.root / "val_0.mp4"
    assert Recognizer(tmp_path / "hf")(video).top(5) == Recognizer(HUB)(video).top(5)


@pytest.mark.parametrize("source", [NAME, HUB])
def test_pretrained_modules(source: str, shipped, web) -> None:
    model = create_model(source, pretrained=True)
    assert isinstance(model, VideoClassifier) and model.training
    assert model.pretrained_cfg["label_names"][0] == "abseiling"
    clip = torch.randn(1, *model.pretrained_cfg["input_size"])
    with torch.no_grad():
        expected = shipped(clip.transpose(1, 2)).logits
        torch.testing.assert_close(model.eval()(clip), expected, atol=1e-4, rtol=1e-4)
        other = create_model(source, pretrained=True, num_classes=3, drop_path_rate=0.3).eval()
        assert other(clip).shape == (1, 3)
        torch.testing.assert_close(
            other.forward_features(clip).prefix,
            model.forward_features(clip).prefix,
            rtol=0,
            atol=0,
        )
        same = create_model(source, pretrained=True, num_classes=400).eval()
        torch.testing.assert_close(same(clip), expected, atol=1e-4, rtol=1e-4)
        small = create_model(source, pretrained=True, img_size=64, clip_len=4).eval()
        assert small(torch.randn(1, 3, 4, 64, 64)).shape == (1, 400)
    if source == HUB:
        assert model.pretrained_cfg["architecture"] == NAME
    with pytest.raises(ValueError, match="does not fit the model of the config"):
        create_model(source, pretrained=True, arch=dict(SMALL["arch"], depth=1))


def test_random_weights_are_not_fetched(web, monkeypatch) -> None:
    read = "mmvidformer.checkpoints.image_init.read_model"
    monkeypatch.setattr(read, lambda *_: pytest.fail("read"))
    assert "init_from" in get_config(NAME).model.backbone
    first = create_model(NAME, **SMALL)
    assert first.num_features == 16 and not web.fetched
    other = create_model(NAME, **SMALL)
    assert not torch.equal(first.backbone.embed.proj.weight, other.backbone.embed.proj.weight)


def test_an_image_model_of_timm_by_name(web, monkeypatch) -> None:
    """Its weights are loaded only if ``init_from`` names it."""
    create, asked = timm.create_model, []

    def without_download(name: str, pretrained: bool, **options: object) -> nn.Module:
        asked.append(pretrained)
        return create(name, pretrained=False, **options)

    monkeypatch.setattr(timm, "create_model", without_download)
    options = dict(arch="timm:test_vit", num_classes=3, clip_len=2, img_size=32)
    for name in (NAME, "compose_linear_time_motion"):
        model = create_model(name, **options)
        assert model.num_features == 64 and not any(asked)
    model = create_model(NAME, init_from="timm:test_vit", **options)
    assert model(torch.randn(1, 3, 2, 32, 32)).shape == (1, 3) and asked[-1] and not web.fetched


def test_weights_of_a_file(tmp_path: Path) -> None:
    model = create_model("vivit_fe_k400", num_classes=3, **SMALL)
    torch.save(model.state_dict(), tmp_path / "a.pth")
    cfg = get_config("vivit_fe_k400")
    cfg.model.backbone.update(SMALL)
    cfg.model.cls_head.update(in_channels=16, num_classes=3)
    cfg.dump(tmp_path / "own.py")
    path = str(tmp_path / "a.pth")
    other = create_model(str(tmp_path / "own.py"), checkpoint_path=path, temporal_depth=4)
    for name, value in other.state_dict().items():
        assert torch.equal(value, model.state_dict()[name])
    assert other.num_classes == 3 and other.pretrained_cfg["architecture"] == "own"
    assert "label_names" not in other.pretrained_cfg
    other = create_model("vivit_fe_k400", num_classes=3, checkpoint_path=path, **SMALL)
    assert torch.equal(other.get_classifier().weight, model.get_classifier().weight)
    assert create_model("vivit_fe_k400", num_classes=0, **SMALL).num_classes == 0


def test_own_configs_need_no_pipelines(tmp_path: Path) -> None:
    head = dict(type="TimeSformerHead", num_classes=3, in_channels=16)
    backbone = dict(type="mmvidformer.TimeSformer", **SMALL)
    model = dict(type="Recognizer3D", backbone=backbone, cls_head=head)
    Config(dict(model=model)).dump(tmp_path / "own.py")
    about = create_model(str(tmp_path / "own.py")).pretrained_cfg
    assert about["num_classes"] == 3 and about["input_size"] == (3, 4, 32, 32)
    assert about.keys().isdisjoint({"mean", "frame_interval", "url", "license"})


def test_a_config_builds_its_recognizer() -> None:
    """In three lines, two of which are the imports; docs/python.md."""
    recognizer = MODELS.build({"_scope_": "mmaction", **get_config("vivit_fe_motion").model})
    recognizer.load_state_dict(create_model("vivit_fe_motion").state_dict())


def test_names() -> None:
    every = list_models()
    assert len(every) > 40 and every == sorted(every)
    assert list_models("vivit_?") == []
    assert list_models("vivit_f*_k400") == ["vivit_fdp_k400", "vivit_fe_k400", "vivit_fsa_k400"]
    weights = list_models("vivit*", pretrained=True)
    assert weights == [
        "vivit_fe_k400", "vivit_l_fe_ek100", "vivit_l_fe_k400", "vivit_l_fe_k600", "vivit_st_k400",
    ]  # fmt: skip
    # MMAction2's weights belong to a config that the paper's authors published none for.
    assert published.row_of("published://timesformer/mmaction2/joint").license == "Apache-2.0"
    assert published.row_of(f"published://{NAME}").name == NAME
    assert mmvidformer.create_model is create_model
    with pytest.raises(KeyError, match="no shipped config named 'vivit_fe_k40'; did you mean"):
        create_model("vivit_fe_k40")
    with pytest.raises(KeyError, match="no published checkpoint named 'vivit_fe_motion'"):
        create_model("vivit_fe_motion", pretrained=True)
    with pytest.raises(KeyError, match="no argument of ViViT named 'img'; did you mean .*img_size"):
        create_model("vivit_fe_motion", img=3)


def test_a_folder_whose_weights_are_not_loaded_is_said(shipped, tmp_path: Path, caplog) -> None:
    create_model(str(tmp_path / "hf"))
    assert "are not loaded: give pretrained=True" in caplog.text
    caplog.clear()
    create_model(str(tmp_path / "hf"), pretrained=True)
    assert "pretrained=True" not in caplog.text
