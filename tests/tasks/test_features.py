"""Saved features as tokens of a head."""

from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.datasets.transforms import PackActionInputs
from mmaction.structures import ActionDataSample
from mmengine.dataset import pseudo_collate
from mmengine.structures import InstanceData

from mmvidformer import get_config
from mmvidformer.config.building import building
from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.models.segments_head import SegmentsHead
from mmvidformer.registry import DATASETS, MODELS
from mmvidformer.tasks.action_segmentation import META_KEYS
from mmvidformer.tasks.datasets import SpanDataset
from mmvidformer.tasks.evaluator import BadVideoEvaluator
from mmvidformer.tasks.metrics import SegmentsMetric
from mmvidformer.tasks.transforms import LoadFeatures
from mmvidformer.video.errors import BadVideo


@pytest.fixture
def video(tmp_path) -> str:
    """Features of a video of 40 frames: windows of 16 frames, every 4."""
    rows = np.arange(7)[:, None] + np.zeros((7, 5))
    np.savez(tmp_path / "a.mp4.npz", features=rows, every=4, span=16, fps=8.0, frames=40)
    return str(tmp_path / "a.mp4.npz")


def test_rows_are_in_the_middle_of_their_windows(video) -> None:
    found = LoadFeatures()({"filename": video, "spans": []})
    assert found["imgs"].shape == (1, 7, 1, 1, 5)
    assert found["frame_inds"].tolist() == [6, 10, 14, 18, 22, 26, 30]  # window 0: frames 0 to 15
    assert (found["frame_step"], found["total_frames"], found["avg_fps"]) == (4, 40, 8.0)


def test_a_training_sample_is_drawn_or_filled_up(video) -> None:
    np.random.seed(0)
    firsts = set()
    for _ in range(30):
        found = LoadFeatures(rows=4)({"filename": video})
        values = found["imgs"][0, :, 0, 0, 0]
        assert (np.diff(values) == 1).all()
        assert found["frame_inds"].tolist() == [6 + 4 * value for value in values]
        firsts.add(values[0])
    assert firsts == {0, 1, 2, 3}
    found = LoadFeatures(rows=9)({"filename": video})
    assert found["imgs"][0, :, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 6, 6]
    assert found["frame_inds"][-1] == 38


def test_segments_have_the_time_of_the_video(video, monkeypatch) -> None:
    """A segment that starts with row 0 starts at frame 6."""
    head = SegmentsHead(2, 5, hidden_dim=8, levels=2)
    info = LoadFeatures()({"filename": video})
    tokens = torch.from_numpy(info.pop("imgs"))[0][None]
    sample = ActionDataSample(metainfo=info)
    count = head(tokens).shape[1]
    outputs = torch.zeros(1, count, 4)
    outputs[..., :2], outputs[0, 1] = -9, torch.tensor([9, -9, 1.5, 1.0])  # of row 1: 0 to 2.5
    monkeypatch.setattr(SegmentsHead, "forward", lambda *_, **__: outputs)
    (found,) = head.predict(tokens, [sample])
    (segment,) = found.pred_instances.segments.tolist()
    assert segment == pytest.approx([6 / 8, (6 + 10) / 8])


def test_files_without_the_facts_of_the_video_are_refused(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", features=np.zeros((7, 5)), fps=8.0, frames=40)
    with pytest.raises(ValueError, match=r"a\.npz has no every, span$"):
        LoadFeatures()({"filename": str(tmp_path / "a.npz")})


def test_features_that_cannot_be_read_are_bad_videos(video, tmp_path) -> None:
    """Their segments are missed, whatever is found in the others."""
    content = Path(video).read_bytes()
    (tmp_path / "cut.mp4.npz").write_bytes(content[: len(content) // 2])
    rows = [f"{name}.mp4,0.5,2,run\n" for name in ("cut", "a", "gone")]
    (tmp_path / "list.csv").write_text("".join(["video,start,end,label\n", *rows]))
    inner = SpanDataset(
        str(tmp_path / "list.csv"),
        [LoadFeatures(), PackActionInputs(meta_keys=META_KEYS)],
        data_prefix=dict(video=str(tmp_path)),
        metainfo=dict(classes=["run"]),
        suffix=".npz",
        test_mode=True,
    )
    data = SafeDataset(inner, max_bad_share=1.0)
    samples = [data[i]["data_samples"] for i in range(3)]
    reasons = [sample.get("bad_video") for sample in samples]
    assert reasons[0].startswith("LoadFeatures cannot read it (BadZipFile: ") and reasons[1] is None
    assert reasons[2] == "No such file or directory"
    for sample in samples:
        found = dict(segments=torch.tensor([[0.5, 2]]), labels=torch.tensor([0]))
        sample.pred_instances = InstanceData(**found, scores=torch.tensor([0.9]))
    evaluator = BadVideoEvaluator(SegmentsMetric())
    evaluator.process(samples)
    results = evaluator.evaluate(3)
    assert results["segments/mAP"] == pytest.approx(1 / 3) and results["bad_videos"] == 2
    with pytest.raises(BadVideo, match=r"cut.mp4.npz: LoadFeatures cannot read it \(BadZipFile"):
        SafeDataset(inner, "raise")[0]


@pytest.mark.parametrize("name", ["features_thumos14", "features_anet13"])
def test_recipes_of_saved_features(name: str, tmp_path) -> None:
    """A training step reaches all parameters, and testing finds segments of a whole video."""
    cfg = get_config(name)
    count = cfg.model.cls_head.num_classes
    rng = np.random.default_rng(0)
    rows = ["video,start,end,label"]
    for i in range(2):
        facts = dict(every=4, span=16, fps=25.0, frames=1200)
        features = rng.normal(size=(297, 768))
        np.savez(tmp_path / f"{i}.mp4.npz", features=features, **facts)
        rows += [f"{i}.mp4,{start},{start + length},c{i}" for start, length in ((1, 3), (9, 30))]
    for split in ("train", "val", "test"):
        (tmp_path / f"{split}.csv").write_text("\n".join(rows))
        dataset = cfg[f"{split}_dataloader"].dataset
        dataset.update(ann_file=str(tmp_path / f"{split}.csv"))
        dataset.metainfo = dict(classes=[f"c{i}" for i in range(count)])
        dataset.data_prefix.video = str(tmp_path)
    cfg.train_dataloader.dataset.pipeline[0].rows = 64
    cfg.model.cls_head.hidden_dim = 16
    torch.manual_seed(0)
    np.random.seed(0)
    with building(cfg):
        model = MODELS.build(cfg.model)
        train, test = (
            DATASETS.build(cfg[f"{split}_dataloader"].dataset) for split in ("train", "test")
        )
    data = model.data_preprocessor(pseudo_collate([train[0], train[1]]), training=True)
    sum(model(**data, mode="loss").values()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    model.cls_head.score_thr = 0.0
    (found,) = model.eval().test_step(pseudo_collate([test[0]]))
    assert len(found.pred_instances.segments) > 0
    assert found.pred_instances.segments.max() <= 48
