"""The command speed: variants of a model, their times and answers."""

import json
from pathlib import Path

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.apis.speed import Variant, as_batches, measure, with_random_weights
from mmvidformer.cli.speed import table
from mmvidformer.errors import UserError
from mmvidformer.registry import MODELS


def test_variants_on_a_video(main_of, model, tiny_videos, tmp_path: Path, capsys) -> None:
    figures = tmp_path / "speed.json"
    options = ["--clips", "2", "--rounds", "1", "--json", str(figures)]
    main_of("speed")([*model, str(tiny_videos.root / "val_0.mp4"), "--device", "cpu", *options])
    rows = {row["name"]: row for row in json.loads(figures.read_text())}
    ran = ["plain", "optimized", "bfloat16", "int8"]
    assert list(rows) == [*ran, "run lengths", "int8, run lengths"]
    for name in ran:
        assert rows[name]["answers"] == 1 and rows[name]["seconds"] > 0
    assert rows["plain"]["difference"] == 0
    assert rows["optimized"]["difference"] < 1e-5 < rows["int8"]["difference"] < 0.1
    assert rows["int8"]["weight_bytes"] < rows["optimized"]["weight_bytes"]
    layers = rows["int8"]["layers"]
    name = max(layers, key=layers.__getitem__)
    assert rows["int8"]["note"] == f"largest error of a layer: {layers[name]:.1%} ({name})"
    assert "frames='pool' needs tokens in frames" in rows["run lengths"]["note"]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["variant", "ms/clip", "faster", "weights", "changed", "scores"]
    assert printed[5].startswith("run lengths       cannot run: ")


def test_still_parts(main_of, tmp_path: Path, tiny_videos, capsys) -> None:
    """The model in the package, on a video whose frames are the same."""
    video = str(tiny_videos.root / "val_0.mp4")
    main_of("speed")(["camera_motion", video, "--device", "cpu", "--rounds", "1", "--static", "9"])
    (line,) = (row for row in capsys.readouterr().out.splitlines() if row.startswith("run leng"))
    assert "of the tokens; " in line


def test_run_lengths_of_the_config_are_a_variant_alone(tmp_path: Path) -> None:
    """Also the share of the tokens is that of views that run together."""
    torch.manual_seed(0)
    joint = dict(type="mmvidformer.ViViT", arch=dict(embed_dims=64, depth=2, num_heads=2))
    joint |= dict(scheme="spacetime", clip_len=4, img_size=32, stem=dict(tubelet=(1, 8, 8)))
    head = dict(type="mmvidformer.ZeroInitHead", num_classes=3, in_channels=64)
    config = dict(type="mmvidformer.MultiViewRecognizer", backbone=dict(joint, static=0.1))
    config |= dict(cls_head=head, data_preprocessor=dict(type="mmvidformer.VideoDataPreprocessor"))
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(config).eval()
    moving = torch.randint(256, (3, 4, 32, 32))
    views = torch.stack([moving, moving[:, :1].expand(-1, 4, -1, -1)]).byte()
    batches = as_batches([dict(inputs=views, data_samples=ActionDataSample())])
    variants = {v.name: v for v in measure(model, batches, 1, 1.0, False)}
    assert variants["run lengths"].note.startswith("62% of the tokens; ")  # (1 + 1 / 4) / 2
    statics = [variants[name].model.backbone.static for name in ("plain", "optimized", "int8")]
    assert statics == [None] * 3 and model.backbone.static == 0.1


def test_what_no_variant_can(main_of, model, monkeypatch, capsys) -> None:
    """Such as memory for one clip."""
    fail = Variant("plain", note="out of memory")
    monkeypatch.setattr("mmvidformer.apis.speed.measure", lambda *_: [fail])
    with pytest.raises(UserError, match="no variant can run: out of memory"):
        main_of("speed")([*model, "--clips", "1", "--device", "cpu"])


def test_table_without_the_plain_model() -> None:
    row = dict(name="int8", seconds=0.5, weight_bytes=2**20, gpu_bytes=2**21)
    row |= dict(answers=0, changed=0, difference=0.25, note="")
    head, plain, int8 = table([dict(name="plain", note="out of memory"), row])
    assert head.split()[-2:] == ["scores", "GPU"]
    assert plain == "plain             cannot run: out of memory"
    assert int8.split()[2:] == ["1.00x", "1.0MiB", "-", "0.25", "2MiB"]
    assert table([dict(row, difference=None)])[1].split()[-2:] == ["inf", "2MiB"]


def test_infinite_differences_are_null_in_json() -> None:
    variant = Variant("int8", torch.nn.Module(), seconds=[1.0], cpu_seconds=[1.0])
    variant.model.backbone, variant.change.difference = torch.nn.Identity(), float("inf")
    assert json.loads(json.dumps(variant.row(), allow_nan=False))["difference"] is None


def test_noise_without_weights(main_of, model, capsys) -> None:
    options = ["--random", "--clips", "1", "--rounds", "1", "--device", "cpu"]
    start = "model.backbone.init_from.source=timm:not_fetched"
    main_of("speed")([model[0], *options, "--cfg-options", start])
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["variant", "plain", "optimized", "bfloat16", "int8"]  # nothing is still
    with pytest.raises(UserError, match="at most a checkpoint and a video"):
        main_of("speed")([*model, *options])


def test_random_weights_come_from_nowhere() -> None:
    starts = dict(init_from="timm:vit", pretrained="https://x/y.pth", init_cfg=dict(checkpoint="z"))
    cfg = Config(dict(model=dict(backbone=dict(type="TimeSformer", **starts))))
    random = with_random_weights(cfg).model.backbone
    assert random == {"type": "TimeSformer", **dict.fromkeys(starts)}
    assert cfg.model.backbone.pretrained == starts["pretrained"]


def test_what_fails_says_why() -> None:
    class Broken(torch.nn.Module):
        backbone = cls_head = torch.nn.Identity()

        def test_step(self, data: dict) -> list:
            raise RuntimeError("no such operator\nmore lines")

    plain, optimized = measure(Broken(), as_batches([dict(data_samples=0)]), 1, None, False)
    assert isinstance(plain, Variant) and plain.row() == dict(name="plain", note="no such operator")
    assert optimized.note == "not for Identity"
