"""Training and testing through the tools on data that are not as they should be."""

import csv
import json
import shutil

import pytest
import torch
from mmengine.config import Config


@pytest.fixture(scope="module")
def broken(tiny_videos, tmp_path_factory):
    """The tiny videos, one of each list cut off, and one of the validation list missing."""
    root = tmp_path_factory.mktemp("broken")
    for path in tiny_videos.root.iterdir():
        shutil.copy(path, root)
    for name in ("train_1.mp4", "val_3.mp4"):
        (root / name).write_bytes((root / name).read_bytes()[:500])
    (root / "val_5.mp4").unlink()
    return root


@pytest.fixture(scope="module")
def settings(broken):
    loader = dict(num_workers=2)
    return dict(
        train_cfg=dict(max_epochs=2),
        bad_videos=dict(on_bad_video="resample", max_bad_share=0.3),
        default_hooks=dict(bad_videos=dict(type="mmvidformer.BadVideoHook", max_bad_share=0.3)),
        **{
            f"{split}_dataloader": dict(
                **loader,
                dataset=dict(
                    ann_file=str(broken / f"{name}.txt"), data_prefix=dict(video=str(broken))
                ),
            )
            for split, name in (("train", "train"), ("val", "val"), ("test", "val"))
        },
    )


@pytest.fixture(scope="module")
def run_dir(settings, make_config, train, tmp_path_factory):
    work_dir = tmp_path_factory.mktemp("work")
    config = make_config("broken", **settings)
    train([str(config), "--work-dir", str(work_dir), "--seed", "0"])
    return config, work_dir


def listed(path):
    with path.open() as file:
        return [(row["path"].rsplit("/")[-1], row["sample"]) for row in csv.DictReader(file)]


def test_training_continues_and_lists_the_bad_videos(run_dir):
    work_dir = run_dir[1]
    assert (work_dir / "epoch_2.pth").exists()
    assert listed(work_dir / "bad_videos_train.csv") == [("train_1.mp4", "1")]
    assert listed(work_dir / "bad_videos_val.csv") == [("val_3.mp4", "3"), ("val_5.mp4", "5")]
    log = next(work_dir.glob("*/*.log")).read_text()
    assert log.count("bad video: ") == 3
    assert "1 of 8 samples in train are bad so far; see" in log
    assert "2 of 7 samples could not be read and count as wrong" in log


def test_the_saved_config_is_the_config(run_dir):
    """Other tools can run what a run has saved, and its datasets keep their names."""
    given, saved = (Config.fromfile(path) for path in (run_dir[0], run_dir[1] / "broken.py"))
    for split in ("train", "val", "test"):
        dataset = saved[f"{split}_dataloader"].dataset
        assert dataset.type == "VideoDataset"
        assert dataset == given[f"{split}_dataloader"].dataset


def test_the_policy_can_be_switched_off(run_dir, train, tmp_path):
    options = ["--no-validate", "--cfg-options", "default_hooks.bad_videos=None"]
    options += ["train_dataloader.num_workers=0"]
    with pytest.raises(RuntimeError, match="Error reading"):
        train([str(run_dir[0]), "--work-dir", str(tmp_path), *options])


@pytest.mark.parametrize("workers", [2, pytest.param(0, marks=pytest.mark.slow)])
def test_the_guard_does_not_change_training(workers, train, make_config, weights, tmp_path):
    """Random clips, dropped paths and shuffling are those of a run without the hook."""
    changes = {
        "train_dataloader.num_workers": workers,
        "train_dataloader.dataset.pipeline.1.test_mode": False,
        "model.backbone.drop_path_rate": 0.3,
        "train_cfg.max_epochs": 2,
    }
    guard = {"default_hooks.bad_videos": dict(type="mmvidformer.BadVideoHook", time_limit=60)}
    for name, hook in (("guarded", guard), ("plain", {})):
        config = make_config(name, **changes, **hook)
        train([str(config), "--work-dir", str(tmp_path / name), "--seed", "0", "--no-validate"])
    guarded, plain = (weights(tmp_path / name / "epoch_2.pth") for name in ("guarded", "plain"))
    torch.testing.assert_close(guarded, plain, rtol=0, atol=0)


def test_another_video_backend(run_dir, test, tmp_path):
    """The option replaces the decoders and leaves nothing else in the config."""
    config, work_dir = run_dir
    arguments = [str(config), str(work_dir / "epoch_2.pth"), "--video-backend", "pyav"]
    test([*arguments, "--work-dir", str(tmp_path)])
    given, saved = Config.fromfile(config), Config.fromfile(tmp_path / "broken.py")
    steps = saved.test_dataloader.dataset.pipeline
    assert steps[0] == dict(type="mmvidformer.VideoInit", backend="pyav", num_threads=1)
    assert set(saved) - set(given) <= {"launcher", "work_dir"}
    scores = json.loads((tmp_path / "test_1x1_score.json").read_text())
    assert scores["metrics"]["bad_videos"] == 2


def test_testing_counts_and_lists_them(run_dir, test, tmp_path, capsys):
    config, work_dir = run_dir
    test([str(config), str(work_dir / "epoch_2.pth"), "--work-dir", str(tmp_path)])
    saved = json.loads((tmp_path / "test_1x1_score.json").read_text())
    metrics = saved["metrics"]
    assert metrics["bad_videos"] == 2
    with (tmp_path / "bad_videos_test.csv").open() as file:
        reasons = {row["path"].rsplit("/")[-1]: row["reason"] for row in csv.DictReader(file)}
    assert set(reasons) == {"val_3.mp4", "val_5.mp4"}
    assert reasons["val_5.mp4"] == "there is no such file"
    assert "bad videos: 2, counted as wrong" in capsys.readouterr().out


def test_good_files_give_the_same_without_the_bad_ones(
    run_dir, broken, make_config, test, tmp_path
):
    """The scores of good videos do not depend on policy, workers or bad neighbours."""
    import pickle

    config, work_dir = run_dir
    checkpoint = str(work_dir / "epoch_2.pth")
    lines = (broken / "val.txt").read_text().splitlines(keepends=True)
    clean = broken / "clean.txt"
    clean.write_text("".join(line for i, line in enumerate(lines) if i not in (3, 5)))
    dataset = dict(ann_file=str(clean), data_prefix=dict(video=str(broken)))
    plain = make_config("clean", test_dataloader=dict(dataset=dataset))
    scores = []
    for name, one in (("broken", config), ("plain", plain)):
        dump = tmp_path / f"{name}.pkl"
        test([str(one), checkpoint, "--work-dir", str(tmp_path / name), "--dump", str(dump)])
        dumped = pickle.loads(dump.read_bytes())
        scores.append([d["pred_score"] for d in dumped if "bad_video" not in d])
    assert len(scores[0]) == len(scores[1]) == 5
    assert torch.equal(torch.stack(scores[0]), torch.stack(scores[1]))
