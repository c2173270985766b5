"""Configs of other tasks run with our tools as far as with MMAction2's own."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config
from mmengine.runner import Runner
from mmengine.utils import get_installed_path

CONFIGS = Path(get_installed_path("mmaction"), ".mim", "configs")
COUNT = 8  # samples; one config drops smaller batches


class Stop(Exception):
    """What MMEngine does after the hooks that check a run, instead."""


def write_poses() -> None:
    points = dict(keypoint=np.zeros((1, 9, 17, 2)), keypoint_score=np.ones((1, 9, 17)))
    sizes = dict(total_frames=9, img_shape=(32, 32), original_shape=(32, 32))
    names = [f"video_{number}" for number in range(COUNT)]
    poses = [dict(frame_dir=name, label=59, **points, **sizes) for name in names]
    split = dict(xsub_train=names, xsub_val=names)
    Path("data/skeleton").mkdir(parents=True)
    for name in ("ntu60_2d.pkl", "ntu60_hrnet.pkl"):
        content = pickle.dumps(dict(split=split, annotations=poses))
        Path("data/skeleton", name).write_bytes(content)


def write_sounds() -> None:
    folder = Path("data/kinetics400")
    folder.mkdir(parents=True)
    for split in ("train", "val"):
        lines = "video.npy 9 399\n" * COUNT
        (folder / f"kinetics400_{split}_list_audio_features.txt").write_text(lines)


def write_segments() -> None:
    Path("data/ActivityNet").mkdir(parents=True)
    video = dict(duration_second=9.0, duration_frame=9, annotations=[], feature_frame=9)
    videos = {f"video_{number}": video for number in range(COUNT)}
    for split in ("train", "val"):
        Path(f"data/ActivityNet/anet_anno_{split}.json").write_text(json.dumps(videos))


def write_boxes() -> None:
    folder = Path("data/ava/annotations")
    folder.mkdir(parents=True)
    label = 'item {\n  name: "stand"\n  id: 12\n}\n'
    (folder / "ava_action_list_v2.1_for_activitynet_2018.pbtxt").write_text(label)
    for split in ("train", "val"):
        boxes = "".join(f"video,{902 + i},0.1,0.1,0.9,0.9,12,0\n" for i in range(COUNT))
        (folder / f"ava_{split}_v2.1.csv").write_text(boxes)
        (folder / f"ava_{split}_excluded_timestamps_v2.1.csv").touch()
        name = f"ava_dense_proposals_{split}.FAIR.recall_93.9.pkl"
        (folder / name).write_bytes(pickle.dumps({}))


KINDS = {
    "skeleton/stgcn/stgcn_8xb16-joint-u100-80e_ntu60-xsub-keypoint-2d.py": write_poses,
    "skeleton/posec3d/slowonly_r50_8xb16-u48-240e_ntu60-xsub-keypoint.py": write_poses,
    "recognition_audio/resnet/tsn_r18_8xb320-64x1x1-100e_kinetics400-audio-feature.py": (
        write_sounds
    ),
    "localization/bmn/bmn_2xb8-400x100-9e_activitynet-feature.py": write_segments,
    "detection/slowonly/slowonly_kinetics400-pretrained-r50_8xb16-4x16x1-20e_ava21-rgb.py": (
        write_boxes
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_they_are_not_refused(name, train, make_config, tmp_path, monkeypatch):
    """Detection needs MMDetection, and is tried with another model."""
    monkeypatch.chdir(tmp_path)
    KINDS[name]()
    cfg = Config.fromfile(CONFIGS / name)
    if name.startswith("detection"):
        cfg.model = Config.fromfile(make_config("tiny")).model
    cfg.dump("config.py")

    def stop(runner: Runner) -> None:
        raise Stop

    monkeypatch.setattr(Runner, "_init_model_weights", stop)
    cfg.work_dir = "theirs"
    with pytest.raises(Stop):
        Runner.from_cfg(cfg).train()
    with pytest.raises(Stop):
        train(["config.py", "--work-dir", "ours"])
