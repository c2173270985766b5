"""Fine-tuning on lists of one's own, through the tool."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvidformer.checkpoints import load_checkpoint
from mmvidformer.engine.loading import WrongWeights


def test_lora_from_weights_of_other_classes(
    main_of, test, own, pretrained, make_config, weights, tmp_path, capsys
) -> None:
    config, checkpoint, start = pretrained
    work_dir = tmp_path / "run"
    options = ["--config", config, "--data", own, "--weights", checkpoint]
    options += ["--method", "lora", "--lora-rank", "1"]
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
    assert all("lora_" in name or name.startswith("cls_head.") for name in trained)
    whole = load_checkpoint(work_dir / "epoch_2.pth").state
    for name, value in start.items():
        if name.startswith("backbone."):
            torch.testing.assert_close(whole[name], value, rtol=0, atol=0)
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
    accuracy = json.loads((work_dir / "test_1x1_score.json").read_text())["metrics"]
    # Merged, it has the names of the model without LoRA, whose config reads both.
    merged, plain = tmp_path / "merged.pth", str(make_config("plain"))
    main_of("convert")([str(work_dir / "epoch_2.pth"), str(merged)])
    assert not any("lora_" in name for name in weights(merged))
    for number, checkpoint in enumerate((merged, work_dir / "epoch_2.pth")):
        folder = tmp_path / f"test_{number}"
        test([plain, str(checkpoint), "--work-dir", str(folder)])
        assert json.loads((folder / "test_1x1_score.json").read_text())["metrics"] == accuracy
    with pytest.raises(FileExistsError, match="--resume goes on with that run"):
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
    for method, hooks in ((["full"], 0), (["lora", "--lora-rank", "1"], 1)):
        main_of("finetune")([*again, "--method", *method, "--force"])
        found = Config.fromfile(tmp_path / "again" / "finetune" / "config.py")
        assert found.train_dataloader.dataset.type == "VideoDataset"
        assert found.load_from == str(work_dir / "epoch_2.pth")  # which was tested
        assert ("lora" in found.model.backbone) == hooks == str(found).count("SaveTrainedHook")
        assert f"starts from {found.load_from}" in capsys.readouterr().out


@pytest.mark.parametrize(("by_epoch", "name"), [(True, "epoch_1.pth"), (False, "iter_2.pth")])
def test_the_checkpoint_is_the_one_of_this_run(
    load, own, pretrained, tmp_path, capsys, monkeypatch, by_epoch, name
) -> None:
    """Not one that an older run left in the folder; without validation there is no best one."""
    config, checkpoint, _ = pretrained
    old = ["best_acc_top1_epoch_9.pth", "epoch_9.pth", "iter_90.pth"]
    (tmp_path / "finetune").mkdir()
    for file in (*old, "finetune/config.py"):
        (tmp_path / file).write_text("old")
    tool = load("finetune")
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 0)  # as with --procs
    options = ["--config", config, "--data", own, "--weights", checkpoint, "--work-dir"]
    options += [str(tmp_path), "--epochs", "1", "--batch", "4", "--workers", "0", "--force"]
    hook = [f"by_epoch={by_epoch}", "interval=1", "save_best=None"]
    changes = [f"{part}=None" for part in ("val_cfg", "val_dataloader", "val_evaluator")]
    changes += [f"default_hooks.checkpoint.{change}" for change in hook]
    assert tool.main([*options, "--cfg-options", *changes]) == 0
    assert f"{tmp_path}/{name}" in capsys.readouterr().out
    result = json.loads((tmp_path / "finetune" / "result.json").read_text())
    assert result == {"checkpoint": str(tmp_path / name)}  # nothing to validate


def test_a_run_ends_with_the_result_of_the_test_pipeline_on_the_validation_list(
    main_of, test, own, pretrained, tmp_path, capsys
) -> None:
    """With its views, here two clips; and beside chance: no video, all classes alike."""
    options = ["--config", pretrained[0], "--data", own, "--weights", pretrained[1]]
    options += ["--work-dir", str(tmp_path), "--epochs", "1", "--workers", "0", "--cfg-options"]
    options.append("test_dataloader.dataset.pipeline.1.num_clips=2")
    assert main_of("finetune")(options) == 0
    said = capsys.readouterr().out
    result = json.loads((tmp_path / "finetune" / "result.json").read_text())
    top1 = result["validation"]["acc/top1"]
    assert f"validation: {100 * top1:.1f}% (" in said and "n = 7); without looking at" in said
    assert (
        "videos: 42.9%; frame differences with logistic" in said
    )  # three of seven videos have the first class
    config = str(tmp_path / "finetune" / "config.py")
    test([config, result["checkpoint"], "--split", "val", "--work-dir", str(tmp_path / "again")])
    again = json.loads((tmp_path / "again" / "val_2x1_score.json").read_text())
    assert again["metrics"] == result["validation"]


def test_validation_and_test_that_prepare_videos_differently_are_refused(
    main_of, own, pretrained, tmp_path
) -> None:
    options = ["--config", pretrained[0], "--data", own, "--work-dir", str(tmp_path / "run")]
    options += ["--cfg-options", "test_dataloader.dataset.pipeline.3.scale=(44,36)"]
    wrong = r"pipeline.3.scale is \(44, 36\), in validation \(-1, 36\); to prepare them alike"
    with pytest.raises(ValueError, match=wrong):
        main_of("finetune")(options)
    assert not (tmp_path / "run").exists()


def test_nothing_is_written_if_something_is_wrong(main_of, own, pretrained, make_config, tmp_path):
    other = make_config("deeper", model=dict(backbone=dict(arch=dict(depth=3))))
    work_dir = tmp_path / "run"
    options = ["--data", own, "--weights", pretrained[1], "--work-dir", str(work_dir)]
    with pytest.raises(
        WrongWeights, match="five.pth does not fit the model of the config: .* missing"
    ):
        main_of("finetune")(["--config", str(other), *options])
    assert not work_dir.exists()


def test_a_run_writes_over_neither_its_start_nor_another_run(
    main_of, train, own, pretrained, tmp_path
) -> None:
    start = tmp_path / "epoch_1.pth"
    start.write_bytes(Path(pretrained[1]).read_bytes())
    options = ["--config", pretrained[0], "--data", own, "--weights", str(start)]
    options += ["--work-dir", str(tmp_path)]
    with pytest.raises(FileExistsError, match=r"epoch_1.pth is of an earlier run: --resume"):
        main_of("finetune")(options)
    with pytest.raises(ValueError, match=r"would write over .*epoch_1.pth, from which it starts"):
        main_of("finetune")([*options, "--force"])
    with pytest.raises(ValueError, match=r"would write over .*epoch_1.pth, from which it starts"):
        train([pretrained[0], "--work-dir", str(tmp_path), "--cfg-options", f"load_from={start}"])
    assert start.read_bytes() == Path(pretrained[1]).read_bytes()
    assert not (tmp_path / "finetune").exists()


def test_a_run_does_not_go_on_with_other_classes(main_of, own, pretrained, tmp_path) -> None:
    options = ["--config", pretrained[0], "--work-dir", str(tmp_path / "run"), "--prepare"]
    main_of("finetune")([*options, "--data", own])
    config = tmp_path / "run/finetune/config.py"
    before = config.read_text()
    other = Path(shutil.copytree(own, tmp_path / "other"))
    names = (other / "classes.txt").read_text().splitlines()
    (other / "classes.txt").write_text("".join(f"{name}s\n" for name in names))
    with pytest.raises(ValueError, match=r"config.py has other classes than"):
        main_of("finetune")([*options, "--data", str(other), "--resume"])
    assert config.read_text() == before
    main_of("finetune")([*options, "--data", own, "--resume"])


@pytest.mark.parametrize("method", ["full", "lora", "adapter", "linear"])
def test_a_run_goes_on_with_the_method_it_began_with(
    method, main_of, own, pretrained, tmp_path
) -> None:
    """The command names none: another one may suit the videos by now."""
    options = ["--config", pretrained[0], "--data", own, "--weights", pretrained[1], "--prepare"]
    options += ["--work-dir", str(tmp_path)]
    main_of("finetune")([*options, "--method", method])
    config = tmp_path / "finetune" / "config.py"
    before = config.read_text()
    if method == "linear":
        with pytest.raises(ValueError, match=r"config.py is of a head on frozen features"):
            main_of("finetune")([*options, "--resume"])
    else:
        main_of("finetune")([*options, "--resume"])
    assert config.read_text() == before


def test_lora_resumes(main_of, train, own, pretrained, weights, tmp_path) -> None:
    """The rest of a run, from a checkpoint of two of its three epochs, equals the run."""
    config, checkpoint, _ = pretrained
    options = ["--config", config, "--data", own, "--weights", checkpoint, "--method", "lora"]
    options += ["--epochs", "3", "--workers", "0", "--prepare"]
    runs = []
    for name in ("whole", "rest"):
        folder = tmp_path / name
        main_of("finetune")([*options, "--work-dir", str(folder)])
        runs.append((str(folder / "finetune" / "config.py"), folder))
    train([runs[0][0]])
    train([runs[1][0], "--resume", str(runs[0][1] / "epoch_2.pth")])
    whole, resumed = (weights(folder / "epoch_3.pth") for _, folder in runs)
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        torch.testing.assert_close(resumed[name], value, rtol=0, atol=0, msg=name)
    assert any(value.any() for name, value in whole.items() if name.endswith("lora_b"))
