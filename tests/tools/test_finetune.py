"""Fine-tuning on lists of one's own, through the tool."""

import json

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.engine.loading import WrongWeights
from mmvidformer.registry import MODELS


@pytest.fixture(scope="module")
def own(tiny_videos):
    """The tiny videos as lists of one's own."""
    (tiny_videos.root / "classes.txt").write_text("red\ngreen\nblue\n")
    return str(tiny_videos.root)


@pytest.fixture(scope="module")
def pretrained(make_config, tmp_path_factory):
    """A config of 5 classes whose validation takes few views at a time, and its weights."""
    few = dict(max_testing_views=1)
    config = make_config("five", model=dict(cls_head=dict(num_classes=5), test_cfg=few))
    cfg = Config.fromfile(config)
    cfg.val_dataloader.batch_size = 4
    cfg.dump(config)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        state = MODELS.build(Config.fromfile(config).model).state_dict()
    path = tmp_path_factory.mktemp("weights") / "five.pth"
    torch.save({"state_dict": state}, path)
    return str(config), str(path), state


def test_linear_probe_from_weights_of_other_classes(
    main_of, test, own, pretrained, weights, tmp_path, capsys
) -> None:
    config, checkpoint, start = pretrained
    work_dir = tmp_path / "run"
    options = ["--config", config, "--data", own, "--weights", checkpoint, "--freeze"]
    options += ["--work-dir", str(work_dir), "--epochs", "2", "--batch", "100", "--workers", "0"]
    main_of("finetune")(
        [*options, "--lr", "1e-3", "--cfg-options", "default_hooks.logger.interval=1"]
    )
    said = capsys.readouterr().out
    assert "3 classes; videos: 8 train, 7 val, 0 test" in said
    assert (
        "initial weights: 2 of another shape (cls_head.fc_cls.weight (5, 16) instead of (3" in said
    )
    trained = weights(work_dir / "epoch_2.pth")
    assert trained["cls_head.fc_cls.weight"].shape == (3, 16)
    for name, value in start.items():
        if name.startswith("backbone."):
            torch.testing.assert_close(trained[name], value, rtol=0, atol=0)
    resolved = Config.fromfile(work_dir / "finetune" / "config.py")
    assert resolved.default_hooks.logger.interval == 1
    logs = [
        json.loads(x)
        for x in next(work_dir.glob("*/vis_data/scalars.json")).read_text().splitlines()
    ]
    assert len([x for x in logs if "loss" in x]) == 2  # a step an epoch, none dropped
    assert [x["step"] for x in logs if "acc/top1" in x] == [1, 2]
    test([str(work_dir / "finetune" / "config.py"), str(work_dir / "epoch_2.pth")])
    test(
        [str(work_dir / "finetune" / "config.py"), str(work_dir / "epoch_2.pth"), "--views", "2x1"]
    )
    assert Config.fromfile(work_dir / "finetune" / "config.py").pretty_text == resolved.pretty_text
    assert (work_dir / "test_1x1_score.json").is_file()
    with pytest.raises(FileExistsError, match="--resume resumes that run"):
        main_of("finetune")(options)
    # A test with other views leaves it as it is; what the run has written works too, with
    # the other tools, and as a config to start from.
    arguments = ["--config", str(work_dir / "config.py"), "--workers", "0"]
    video = f"{own}/val_0.mp4"
    demo = [arguments[1], str(work_dir / "epoch_2.pth"), video]
    assert main_of("demo")(demo) == 0
    said = capsys.readouterr().out
    assert f"{video}: " in said and "blue" in said
    again = [*arguments, "--data", own, "--work-dir", str(tmp_path / "again"), "--prepare"]
    main_of("finetune")(again)
    dataset = Config.fromfile(
        tmp_path / "again" / "finetune" / "config.py"
    ).train_dataloader.dataset
    assert dataset.type == "VideoDataset"


def test_nothing_is_written_if_something_is_wrong(main_of, own, pretrained, make_config, tmp_path):
    other = make_config("deeper", model=dict(backbone=dict(arch=dict(depth=3))))
    work_dir = tmp_path / "run"
    options = ["--data", own, "--weights", pretrained[1], "--work-dir", str(work_dir)]
    with pytest.raises(
        WrongWeights, match="five.pth does not fit the model of the config: .* missing"
    ):
        main_of("finetune")(["--config", str(other), *options])
    assert not work_dir.exists()
