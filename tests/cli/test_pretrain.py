"""From videos without labels to a start for fine-tuning, through the tools."""

import re
import shutil

import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import DefaultSampler
from PIL import Image

from mmvidformer.checkpoints import read_model
from mmvidformer.finetune.pretraining import Pretraining, apply_pretraining


def test_pretrain_look_and_finetune(
    main_of, tiny_videos, make_config, weights, tmp_path, capsys
) -> None:
    config = make_config("pretrained", model=dict(backbone=dict(init_from="timm:no_such_model")))
    work_dir = tmp_path / "run"
    options = ["--config", str(config), "--data", str(tiny_videos.root), "--epochs", "2"]
    options += ["--batch", "4", "--workers", "0", "--mask-ratio", "0.5", "--lr", "0.064"]
    options += ["--work-dir", str(work_dir)]
    assert main_of("pretrain")(options) == 0
    said = capsys.readouterr().out
    count = len([*tiny_videos.root.glob("*.mp4")])
    assert "masked tokens are dropped before the encoder" in said
    assert f"{count} videos; 2 epochs of {count // 4} steps; total batch size 4" in said
    assert "learning rate 0.001 = 0.064 x 4 / 256" in said
    path, checkpoint = work_dir / "pretrain" / "config.py", work_dir / "epoch_2.pth"
    assert f"finetune --config {config} --weights {checkpoint} --data LABELED" in said
    losses = [float(one) for one in re.findall(r"loss_pixels: ([\d.]+)", said)]
    assert all(0 < one < 3 for one in losses)
    trained = weights(checkpoint)
    assert trained["to_pixels.weight"].shape == (2 * 16 * 16 * 3, 8)
    _, found = read_model(checkpoint)
    assert found.state.keys() == {name for name in trained if name.startswith("backbone.")}
    with pytest.raises(FileExistsError, match="--force starts again"):
        main_of("pretrain")(options)

    video = next(tiny_videos.root.glob("*.mp4"))
    pictures = tmp_path / "pictures"
    main_of("lab.plot.masked")(
        [str(path), str(checkpoint), str(video), "--out-dir", str(pictures), "--device", "cpu"]
    )
    (picture,) = pictures.glob("*_masked.png")
    assert Image.open(picture).size[0] > 500
    with pytest.raises(ValueError, match="must be a config of mmvidformer pretrain"):
        plain = make_config("plain")
        main_of("lab.plot.masked")([str(plain), "none", str(video), "--device", "cpu"])

    (tiny_videos.root / "classes.txt").write_text("red\ngreen\nblue\n")
    tuned = tmp_path / "tuned"
    own = ["--config", str(make_config("tuned")), "--data", str(tiny_videos.root)]
    main_of("finetune")(
        [*own, "--weights", str(checkpoint), "--work-dir", str(tuned), "--epochs", "1"]
        + ["--method", "full", "--workers", "0", "--lr", "0"]
    )
    start = weights(tuned / "epoch_1.pth")
    for name, value in trained.items():
        if name.startswith("backbone."):
            torch.testing.assert_close(start[name], value, rtol=0, atol=0)
    assert Config.fromfile(tuned / "finetune" / "config.py").load_from == str(checkpoint)


def test_views_are_a_target(main_of, tiny_videos, make_config, weights, tmp_path, capsys) -> None:
    config = make_config("pretrained", model=dict(backbone=dict(init_from=None)))
    options = ["--config", str(config), "--data", str(tiny_videos.root), "--epochs", "1"]
    options += ["--batch", "4", "--workers", "0", "--mask-ratio", "0.5", "--target", "views"]
    assert main_of("pretrain")([*options, "--work-dir", str(tmp_path / "run")]) == 0
    assert re.search(r"loss_views: [\d.]+ +loss_normal: [\d.]+", capsys.readouterr().out)
    trained = weights(tmp_path / "run" / "epoch_1.pth")
    assert "projector.0.weight" in trained
    _, found = read_model(tmp_path / "run" / "epoch_1.pth")
    assert found.state.keys() == {name for name in trained if name.startswith("backbone.")}


def test_overrides_decide_whether_a_model_can_be_pretrained(
    main_of, tiny_videos, make_config, tmp_path, capsys
) -> None:
    """And videos that cannot be read are replaced, not the end of a run."""
    data = tmp_path / "my videos"
    data.mkdir()
    (data / "a.mp4").write_bytes(b"no video")
    for number in range(3):
        shutil.copy(tiny_videos.root / f"val_{number}.mp4", data / f"b {number}.mp4")
    stem = dict(tubelet=(2, 16, 16), stride=(2, 8, 8))
    config = make_config("overlap", model=dict(backbone=dict(stem=stem)))
    options = ["--config", str(config), "--data", str(data), "--work-dir", str(tmp_path / "my run")]
    options += ["--epochs", "1", "--batch", "4", "--workers", "0", "--mask-ratio", "0.5"]
    with pytest.raises(ValueError, match="tubelets that do not overlap"):
        main_of("pretrain")(options)
    own = ["model.backbone.stem.stride=(2,16,16)", "model.decoder.depth=1"]
    assert main_of("pretrain")([*options, "--cfg-options", *own]) == 0
    said = capsys.readouterr().out
    assert (
        f"'{tmp_path}/my run/epoch_1.pth'" in said and "loss_pixels" in said
    )  # quoted for a shell
    cfg = Config.fromfile(tmp_path / "my run" / "pretrain" / "config.py")
    assert cfg.model.backbone.stem.stride == (2, 16, 16) and cfg.model.decoder.depth == 1


def test_fewer_videos_than_processes(main_of, tiny_videos, make_config, tmp_path) -> None:
    options = ["--config", str(make_config("few")), "--data", str(tiny_videos.root)]
    with pytest.raises(ValueError, match="procs must be at most the [0-9]+ videos, got 99"):
        main_of("pretrain")([*options, "--work-dir", str(tmp_path / "run"), "--procs", "99"])
    with pytest.raises(ValueError, match="epochs must be at least 1, got 0"):
        main_of("pretrain")([*options, "--epochs", "0"])


def test_the_schedule_has_the_steps_of_each_process(
    tiny_videos, make_config, tmp_path, monkeypatch
) -> None:
    """A process gets 4 of 7 videos, since MMEngine rounds up."""
    cfg = Config.fromfile(make_config("counted"))
    videos = sorted(tiny_videos.root.glob("*.mp4"))[:7]
    settings = Pretraining(epochs=3, batch=2, procs=2)
    cfg, notes = apply_pretraining(cfg, videos, tmp_path / "lists", settings)
    monkeypatch.setattr("mmengine.dataset.sampler.get_dist_info", lambda: (0, 2))
    steps = len(DefaultSampler(videos)) // cfg.train_dataloader.batch_size
    assert f"7 videos; 3 epochs of {steps} steps; total batch size 4" in notes
    last = cfg.param_scheduler[-1]
    assert last.begin + last.T_max == 3 * steps == 6
