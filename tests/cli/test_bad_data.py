"""Training and testing through the tools on data that are not as they should be."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmvidformer.engine.errors import run_tool
from mmvidformer.video.errors import BadVideo


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


def test_training_continues_and_names_the_bad_videos(run_dir):
    work_dir = run_dir[1]
    assert (work_dir / "epoch_2.pth").exists()
    log = next(work_dir.glob("*/*.log")).read_text()
    assert log.count("2 of 7 samples could not be read and count as wrong:") == 1
    assert "val_3.mp4: DecordInit cannot read it (RuntimeError: " in log
    assert "val_5.mp4: No such file or directory" in log
    assert "bad_videos: 2" in log


@pytest.mark.slow
def test_several_processes(settings, make_config, run, tools, tmp_path):
    """With workers that share no memory but the count of their process."""
    env = dict(mp_cfg=dict(mp_start_method="forkserver"))
    config = make_config("pair", **settings, env_cfg=env)
    work_dir = tmp_path / "work"
    command = [sys.executable, tools / "train.py", config, "--procs", 2, "--work-dir", work_dir]
    process = run(*command, "--cfg-options", "default_hooks.preflight=None")
    output = process.communicate(timeout=600)[0]
    assert process.returncode == 0, output
    assert "train_1.mp4: DecordInit cannot read it (RuntimeError: " in output
    log = next(work_dir.glob("*/*.log")).read_text()
    assert log.count("2 of 7 samples could not be read and count as wrong:") == 1


def test_the_saved_config_is_the_config(run_dir):
    """Other tools can run what a run has saved, and its datasets keep their names."""
    given, saved = (Config.fromfile(path) for path in (run_dir[0], run_dir[1] / "broken.py"))
    for split in ("train", "val", "test"):
        dataset = saved[f"{split}_dataloader"].dataset
        assert dataset.type == "VideoDataset"
        assert dataset == given[f"{split}_dataloader"].dataset


def test_the_policy_can_be_switched_off(run_dir, train, tmp_path):
    options = ["--no-validate", "--cfg-options", "bad_videos=None"]
    options += ["train_dataloader.num_workers=0"]
    with pytest.raises(BadVideo, match=r"train_1\.mp4: DecordInit cannot read it \(RuntimeError: "):
        train([str(run_dir[0]), "--work-dir", str(tmp_path), *options])


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


@pytest.mark.parametrize("views", ["1x1", "4x3"])
def test_testing_counts_them(run_dir, test, tmp_path, capsys, views):
    config, work_dir = run_dir
    dump = tmp_path / "scores.npz"
    options = ["--work-dir", str(tmp_path), "--views", views, "--dump", str(dump)]
    test([str(config), str(work_dir / "epoch_2.pth"), *options])
    saved = json.loads((tmp_path / f"test_{views}_score.json").read_text())
    assert saved["metrics"]["bad_videos"] == 2
    assert "bad videos: 2\n" in capsys.readouterr().out
    with np.load(dump) as arrays:
        labels, scores, bad = (arrays[name] for name in ("labels", "scores", "bad_videos"))
    assert bad.nonzero()[0].tolist() == [3, 5]
    right = (scores.argmax(axis=1) == labels) & ~bad
    assert saved["metrics"]["acc/top1"] == pytest.approx(right.mean())


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


@pytest.mark.parametrize("policy", ["raise", "resample"])
def test_a_decoder_of_another_kind_ends_the_tool_before_the_start(
    settings, make_config, train, tmp_path, capsys, policy
):
    """It is no bad video, and no list needs to be checked."""
    config = make_config("mixed", **settings)
    options = ["--work-dir", str(tmp_path), "--cfg-options", f"bad_videos.on_bad_video={policy}"]
    options += ["train_dataloader.num_workers=0"]
    options += ["train_dataloader.dataset.pipeline.0.type=mmvidformer.VideoInit"]
    options += ["train_dataloader.dataset.pipeline.2.type=PyAVDecode"]
    assert run_tool(lambda: train([str(config), *options])) == 2
    shown = "".join(capsys.readouterr())
    assert "PyAVDecode cannot decode what VideoInit opens; use VideoDecode()" in shown
    assert "bad video" not in shown and "Traceback" not in shown
