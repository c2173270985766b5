"""Saved features as tokens of a head."""

import json
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
from mmvidformer.errors import UserError
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


def test_rows_that_are_drawn_show_half_of_a_segment(video) -> None:
    """The segment is that of rows 4 and 5; of 7 rows, 4 to 6 are drawn, and what follows is cut."""
    np.random.seed(0)
    seen = set()
    for _ in range(50):
        spans = [((4 * 4 + 6) / 8, (6 * 4 + 6) / 8, 0)]
        found = LoadFeatures(rows=6, least=0.6)({"filename": video, "spans": spans})
        first = int(found["imgs"][0, 0, 0, 0, 0])
        shown = len({*found["imgs"][0, :, 0, 0, 0]})
        assert shown >= 4 and first <= 5 and first + shown >= 5
        assert found["total_frames"] == (40 if first + shown == 7 else 6 + 4 * (first + shown))
        seen.add((first, shown))
    assert {shown for _, shown in seen} == {4, 5, 6} and {0, 3} <= {first for first, _ in seen}


def test_published_features_take_their_facts_from_the_annotations(tmp_path) -> None:
    """The time of a row is that of the middle of its window, 8 frames after its begin."""
    facts = dict(fps=30.0, duration=33.83, subset="Test")
    annotations = [dict(label="b", segment=[0.2, 1.1]), dict(label="a", segment=[11.4, 12.2])]
    database = dict(video_1=dict(facts, annotations=annotations), video_2=dict(facts, subset="Val"))
    file = tmp_path / "thumos14.json"
    file.write_text(json.dumps(dict(database=database)))
    np.save(tmp_path / "video_1.npy", np.arange(10.0)[:, None])
    load = LoadFeatures(facts=str(file), every=4, span=16)
    options = dict(data_prefix=dict(video=str(tmp_path)), metainfo=dict(classes=["a", "b"]))
    data = SpanDataset(str(file), [load], suffix=".npy", subset="Test", **options)
    (found,) = [data[i] for i in range(len(data))]
    assert found["spans"].tolist() == [[0.2, 1.1, 1], [11.4, 12.2, 0]]
    assert (found["total_frames"], found["avg_fps"]) == (round(33.83 * 30), 30.0)
    assert (found["frame_inds"] + found["frame_step"] / 2).tolist() == [
        8 + 4 * i for i in range(10)
    ]
    np.save(tmp_path / "video_3.npy", np.zeros((2, 1)))
    with pytest.raises(UserError, match=r"thumos14\.json has no fps and duration of video_3$"):
        load({"filename": str(tmp_path / "video_3.npy")})
    with pytest.raises(UserError, match=r"json has no subset 'test', only Test, Val$"):
        SpanDataset(str(file), [load], subset="test", **options)
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(UserError, match="other.json is no JSON in ActivityNet's format"):
        SpanDataset(str(tmp_path / "other.json"), [load], subset="Test", **options)


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
    width = cfg.model.cls_head.in_channels
    rows, database = ["video,start,end,label"], {}
    for i in range(2):
        features = rng.normal(size=(297, width))
        facts = dict(every=4, span=16, fps=25.0, frames=1200)
        np.savez(tmp_path / f"{i}.npz", features=features, **facts)
        np.save(tmp_path / f"{i}.npy", features)
        spans = [(start, start + length, f"c{i}") for start, length in ((1, 3), (9, 30))]
        rows += [",".join(map(str, (i, *span))) for span in spans]
        database |= {str(i): dict(fps=25.0, duration=48.0)}
        annotations = [dict(segment=[start, end], label=label) for start, end, label in spans]
        database[str(i)] |= dict(subset="all", annotations=annotations)
    (tmp_path / "list.csv").write_text("\n".join(rows))
    (tmp_path / "list.json").write_text(json.dumps(dict(database=database)))
    for split in ("train", "val", "test"):
        dataset = cfg[f"{split}_dataloader"].dataset
        dataset.ann_file = str(tmp_path / "list.csv")
        if "subset" in dataset:
            dataset.ann_file = dataset.pipeline[0].facts = str(tmp_path / "list.json")
            dataset.subset = "all"
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
