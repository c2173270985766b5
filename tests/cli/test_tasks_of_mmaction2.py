"""MMAction2's configs of other tasks take these backbones, and its own tools train and test them.

Its configs of AVA need MMDetection, which needs mmcv's compiled operators; torchvision's stand in
for them. Its wheel has no config of several labels: its config of TimeSformer takes them here.
"""

import importlib.util
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.utils import get_installed_path

from mmvidformer.engine.loading import load_recognizer
from tests.conftest import kept_instances

MIM = Path(get_installed_path("mmaction"), ".mim")
AVA = "detection/slowonly/slowonly_kinetics400-pretrained-r50_8xb16-4x16x1-20e_ava21-rgb.py"
BMN = "localization/bmn/bmn_2xb8-400x100-9e_activitynet-feature.py"
LABELS = "recognition/timesformer/timesformer_divST_8xb8-8x32x1-15e_kinetics400-rgb.py"
SMALL = dict(arch=dict(embed_dims=16, depth=2, num_heads=2), img_size=32)
VIVIT = dict(type="mmvidformer.ViViT", scheme="factorized_self_attention", clip_len=4, **SMALL)
VIVIT |= dict(stem=dict(tubelet=(2, 16, 16)))


START = """
import pytest, runpy, sys
from tests.mmcv_operators import provide_operators
provide_operators(pytest.MonkeyPatch())
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch, run, request) -> Callable:
    """Train two iterations of a config, and test; gives the validation.

    MMAction2 looks for MMDetection once, so that test runs it in processes of its own.
    """
    apart = getattr(request, "param", False)
    monkeypatch.chdir(tmp_path)

    def call(name: str, *options: str) -> None:
        file = MIM / "tools" / f"{name}.py"
        argv = [str(file), "config.py", *options, "--work-dir", "runs"]
        if apart:
            command = (
                f"{START}\nsys.argv = {argv}\nrunpy.run_path(sys.argv[0], run_name='__main__')"
            )
            process = run(sys.executable, "-c", command)
            log = process.communicate(timeout=600)[0]
            assert process.returncode == 0, log
            return
        spec = importlib.util.spec_from_file_location(f"mmaction_{name}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setattr(sys, "argv", argv)
        with kept_instances():
            module.main()

    def both(cfg: Config) -> dict[str, float]:
        cfg.custom_imports = dict(imports=["mmvidformer.registry"], allow_failed_imports=False)
        for split in ("train", "val", "test"):
            loader = cfg[f"{split}_dataloader"]
            loader.update(batch_size=1, num_workers=0, persistent_workers=False)
        cfg.train_cfg.update(max_epochs=1)
        cfg.dump("config.py")
        call("train")
        (logs,) = tmp_path.glob("runs/*/vis_data/scalars.json")
        call("test", str(tmp_path / "runs" / "epoch_1.pth"))
        return json.loads(logs.read_text().splitlines()[-1])

    return both


def write_ava() -> None:
    """A video of 100 frames with a box at each of two moments."""
    frames, root = Path("data/ava/rawframes/video"), Path("data/ava/annotations")
    for folder in (frames, root):
        folder.mkdir(parents=True)
    for number in range(1, 101):
        picture = np.full((32, 48, 3), 2 * number, np.uint8)
        cv2.imwrite(str(frames / f"img_{number:05}.jpg"), picture)
    label = 'item {\n  name: "stand"\n  id: 12\n}\n'
    (root / "ava_action_list_v2.1_for_activitynet_2018.pbtxt").write_text(label)
    for split in ("train", "val"):
        rows = "".join(f"video,{second:04},0.1,0.1,0.6,0.9,12,0\n" for second in (901, 902))
        (root / f"ava_{split}_v2.1.csv").write_text(rows)
        (root / f"ava_{split}_excluded_timestamps_v2.1.csv").touch()
        found = {f"video,{second:04}": np.array([[0.1, 0.1, 0.6, 0.9, 0.99]]) for second in
                 (901, 902)}  # fmt: skip
        name = f"ava_dense_proposals_{split}.FAIR.recall_93.9.pkl"
        (root / name).write_bytes(pickle.dumps(found))


def ava(head_of_ours: bool) -> Config:
    """Their config of AVA with a ViViT, small frames, and one of the two heads."""
    write_ava()
    cfg = Config.fromfile(MIM / "configs" / AVA)
    for split in ("train", "val", "test"):
        pipeline = cfg[f"{split}_dataloader"].dataset.pipeline
        pipeline[0].frame_interval = 2
        pipeline[2:4] = [dict(type="Resize", scale=(-1, 32))]
        pipeline[-2:] = [
            dict(type="FormatShape", input_format="NCTHW", collapse=not head_of_ours),
            pipeline[-1],
        ]
    if head_of_ours:
        head = dict(type="mmvidformer.BoxesHead", num_classes=80, in_channels=16)
        recognizer = dict(type="mmvidformer.MultiViewRecognizer", cls_head=head)
        cfg.model = recognizer | dict(
            backbone=dict(VIVIT, pool="none"), data_preprocessor=cfg.model.data_preprocessor
        )
    else:
        cfg.model.backbone = dict(type="mmaction.mmvidformer.FeatureMaps", backbone=VIVIT)
        cfg.model.pop("init_cfg")
        cfg.model.roi_head.bbox_head.in_channels = 16
    return cfg


def test_boxes_of_ava_with_our_head(theirs) -> None:
    assert theirs(ava(head_of_ours=True))["mAP/overall"] == pytest.approx(1)


@pytest.mark.parametrize("theirs", [True], indirect=True)
def test_boxes_of_ava_with_their_heads(theirs) -> None:
    pytest.importorskip("mmdet", reason="MMDetection is not installed")
    assert theirs(ava(head_of_ours=False))["mAP/overall"] == pytest.approx(1)


def test_bmn_on_saved_features(theirs, main_of, make_config, tiny_videos, tmp_path) -> None:
    videos, annotations = tmp_path / "videos", {}
    videos.mkdir()
    for number in range(2):
        (videos / f"v_{number}.mp4").symlink_to(tiny_videos.root / f"train_{number}.mp4")
        spans = [dict(segment=[0.2, 1.4], label="red")]
        video = dict(duration_second=2.0, duration_frame=24, feature_frame=24, fps=12, rfps=12)
        annotations[f"v_{number}"] = {**video, "annotations": spans}
    features = tmp_path / "features"
    options = ["--out", str(features), "--files", "--every", "4", "--rows", "16"]
    config, weights = str(make_config("features")), tmp_path / "weights.pth"
    torch.save(load_recognizer(Config.fromfile(config), None, "cpu").state_dict(), weights)
    main_of("features")([config, str(weights), str(videos), *options])
    cfg = Config.fromfile(MIM / "configs" / BMN)
    cfg.model.update(feat_dim=16, temporal_dim=16, num_samples=4)
    for split in ("train", "val", "test"):
        file = tmp_path / f"{split}.json"
        file.write_text(json.dumps(annotations))
        cfg[f"{split}_dataloader"].dataset.update(
            ann_file=str(file), data_prefix=dict(video=str(features))
        )
    assert 0 <= theirs(cfg)["auc"] <= 100


def test_several_labels(theirs, tiny_videos, tmp_path) -> None:
    cfg = Config.fromfile(MIM / "configs" / LABELS)
    lists = tmp_path / "list.txt"
    lists.write_text("train_0.mp4 0 2\ntrain_1.mp4 1\n")
    cfg.model.backbone = dict(type="mmvidformer.TimeSformer", clip_len=4, **SMALL)
    head = dict(type="mmvidformer.MultiLabelHead", num_classes=3, in_channels=16)
    cfg.model.cls_head = head
    for split in ("train", "val", "test"):
        dataset = cfg[f"{split}_dataloader"].dataset
        dataset.update(ann_file=str(lists), data_prefix=dict(video=str(tiny_videos.root)))
        dataset.update(multi_class=True, num_classes=3)
        for step in dataset.pipeline:
            for key in ("crop_size", "size"):
                if key in step:
                    step[key] = 32
            if "clip_len" in step:
                step.update(clip_len=4, frame_interval=2)
            if "scale" in step:
                step["scale"] = (-1, 32)
            if "scale_range" in step:
                step["scale_range"] = (32, 40)
    metric = dict(type="AccMetric", metric_list=("mean_average_precision",))
    cfg.val_evaluator = cfg.test_evaluator = metric
    assert 0 <= theirs(cfg)["acc/mean_average_precision"] <= 1
