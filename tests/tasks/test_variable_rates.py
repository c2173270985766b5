"""Each task trains and tests on a file of variable rate with the labels of its seconds."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData

from mmvidformer.config.fragments import merge
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.models.segments_head import visible_segments
from mmvidformer.models.task_heads import merge_clips
from mmvidformer.registry import DATASETS, METRICS, MODELS
from mmvidformer.tasks.score_files import SaveScores
from mmvidformer.tasks.table import find_task
from tests.video.toys import VARIABLE, read_clock, shown_at, write_clock

CLASSES = ("background", "jump", "run")
SECOND = 3  # of the box
TOLERANCE = 0.05  # seconds, of the clock


@pytest.fixture(autouse=True)
def scope():
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield


@pytest.fixture(params=VARIABLE)
def times(request: pytest.FixtureRequest, tmp_path: Path) -> Sequence[float]:
    """Seconds of the frames of ``v.mp4``, which shows them."""
    write_clock(tmp_path / "v.mp4", VARIABLE[request.param], size=(64, 48))
    return VARIABLE[request.param]


def spans_of(times: Sequence[float]) -> list[tuple[float, float, int]]:
    """Start, end and class of spans that begin and end with frames, in 1 / 25 s."""
    starts = np.round(25 * np.array(times)) / 25
    count = len(starts)
    return [(starts[count // 5], starts[count // 2], 2), (starts[-count // 4], starts[-1], 1)]


def annotate(root: Path, times: Sequence[float], task: str) -> None:
    """Write the lists of a task; all splits have the same video."""
    spans = [f"v.mp4,{start},{end},{CLASSES[label]}\n" for start, end, label in spans_of(times)]
    rows = {
        "classes": "v.mp4 2\n",
        "labels": "v.mp4 0 2\n",
        "number": "video,level,size\nv.mp4,5,7\n",
        "frames": "".join(["video,start,end,label\n", *spans]),
        "segments": "".join(["video,start,end,label\n", *spans]),
        "boxes": f"v,{SECOND},0.25,0.25,0.75,0.75,2,0\n",
    }[task]
    for split in ("train", "val", "test"):
        (root / f"{split}.{find_task(task).suffix}").write_text(rows)


def config_of(task: str, root: Path) -> Config:
    """The config of a tiny model for a task, as ``mmvidformer finetune`` makes it."""
    cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
    if task == "boxes":
        whole = dict(scheme="spacetime", temporal_depth=4, stem=dict(tubelet=(2, 8, 8)))
        cfg.model.backbone.update(whole)
    names = ("level", "size") if task == "number" else CLASSES
    for split in ("train", "val", "test"):
        dataset = cfg[f"{split}_dataloader"].dataset
        dataset.ann_file = str(root / f"{split}.{find_task(task).suffix}")
        dataset.data_prefix.video = str(root)
    lists = VideoLists(root, names, {}, " ")
    if task == "number":  # whose head gets the scale of the values
        lists = lists._replace(facts=find_task(task).read_lists(root).facts)
    merge(cfg, find_task(task).fragment(cfg, lists))
    find_task(task).write_files(lists)
    set_video_backend(cfg, "pyav")
    return cfg


def told(sample: dict) -> np.ndarray:
    """Seconds (views, T) that the frames of a sample tell."""
    return read_clock(sample["inputs"].numpy().transpose(0, 2, 3, 4, 1))


def seconds_of(sample: dict) -> np.ndarray:
    """Seconds (views, T) of the frames of a sample, by their numbers."""
    facts = sample["data_samples"]
    return np.reshape(facts.frame_inds, (facts.num_clips, -1)) / facts.avg_fps


def check_frames(sample: dict, times: Sequence[float], is_training: bool) -> None:
    facts = sample["data_samples"]
    if is_training:
        classes = class_at(told(sample).flatten(), times)
        inside = near_no_border(told(sample).flatten(), times)
        assert (np.asarray(facts.gt_label)[inside] == classes[inside]).all()
        return
    # A model that reads the clock is right.
    clocks = torch.from_numpy(class_at(told(sample), times))
    views = torch.nn.functional.one_hot(clocks, len(CLASSES)).float()
    scores, step = merge_clips(views, facts)
    metric = METRICS.build(dict(type="mmvidformer.FramesMetric"))
    metric.dataset_meta = dict(classes=CLASSES)
    answer = {**facts.to_dict(), "pred_score": scores, "step": step}
    metric.process(None, [answer])
    results = metric.evaluate(1)
    runs = SaveScores.row_of(answer)["runs"]
    for start, end, label in spans_of(
        times
    ):  # the seconds of the file; a frame is in by its middle
        saved = runs[runs[:, 3] == label, :2]
        np.testing.assert_allclose([saved.min(), saved.max()], [start, end], atol=1 / facts.avg_fps)
    borders = 2 * len(spans_of(times))  # at each, a step of two frames may have both classes
    assert results["frames/accuracy"] >= 1 - borders / facts.total_frames
    assert results["frames/edit"] == 1


def class_at(seconds: np.ndarray, times: Sequence[float]) -> np.ndarray:
    classes = np.zeros(np.shape(seconds), np.int64)
    for start, end, label in spans_of(times):
        classes[(seconds > start - 0.02) & (seconds < end - 0.02)] = label
    return classes


def near_no_border(seconds: np.ndarray, times: Sequence[float]) -> np.ndarray:
    borders = np.array([span[:2] for span in spans_of(times)]).flatten()
    return np.abs(seconds[:, None] - borders).min(axis=1) > TOLERANCE


def check_segments(sample: dict, times: Sequence[float], is_training: bool) -> None:
    facts, clocks = sample["data_samples"], told(sample).flatten()
    segments = visible_segments(facts, step=facts.frame_step).numpy()
    if not is_training:
        found = {round(float(label)): (start, end) for start, end, label in segments}
        assert found.keys() == {1, 2}
    for start, end, label in segments:
        within = clocks[int(np.ceil(start)) : int(np.floor(end))]
        assert (class_at(within, times)[near_no_border(within, times)] == label).all()


def check_boxes(sample: dict, times: Sequence[float], is_training: bool) -> None:
    (clocks,) = told(sample)  # 4 frames at an interval of 2
    shown = shown_at(SECOND, times)
    assert clocks[2] == pytest.approx(shown, abs=TOLERANCE)
    assert (np.diff(clocks) > -TOLERANCE).all()


CHECKS: dict[str, Callable | None] = {
    "classes": None,  # of a whole video
    "labels": None,
    "number": None,
    "frames": check_frames,
    "segments": check_segments,
    "boxes": check_boxes,
}


@pytest.mark.parametrize("task", CHECKS)
def test_a_task_trains_and_tests_with_right_labels(
    tmp_path: Path, times: Sequence[float], task: str
) -> None:
    annotate(tmp_path, times, task)
    cfg = config_of(task, tmp_path)
    torch.manual_seed(0)
    model = MODELS.build(cfg.model)
    training = DATASETS.build(cfg.train_dataloader.dataset)
    testing = DATASETS.build(cfg.test_dataloader.dataset)
    samples = []
    for seed in range(8):
        np.random.seed(seed)
        samples.append(training[0])
    if CHECKS[task]:
        for sample, is_training in [*((sample, True) for sample in samples), (testing[0], False)]:
            if task == "frames":
                np.testing.assert_allclose(
                    told(sample), shown_at(seconds_of(sample), times), atol=TOLERANCE
                )
            CHECKS[task](sample, times, is_training)
    batch = model.data_preprocessor(pseudo_collate(samples[:2]), training=True)
    loss, _ = model.parse_losses(model(**batch, mode="loss"))
    loss.backward()
    assert loss.isfinite()
    with torch.no_grad():
        (answer,) = model.eval().test_step(pseudo_collate([testing[0]]))
    metric = METRICS.build(cfg.test_evaluator)
    metric.dataset_meta = testing.metainfo
    metric.process(None, [answer.to_dict()])
    best = {"classes": "acc/top1", "number": "number/mae"}  # R2 needs more than one video
    assert np.isfinite(metric.evaluate(1)[best.get(task, find_task(task).best_metric)])


def test_a_model_that_knows_the_segments_is_right(tmp_path: Path, times: Sequence[float]) -> None:
    annotate(tmp_path, times, "segments")
    sample = DATASETS.build(config_of("segments", tmp_path).test_dataloader.dataset)[0]
    facts = sample["data_samples"]
    segments = torch.tensor([span[:2] for span in spans_of(times)])
    labels = torch.tensor([span[2] for span in spans_of(times)])
    found = InstanceData(segments=segments, labels=labels, scores=torch.ones(len(labels)))
    metric = METRICS.build(dict(type="mmvidformer.SegmentsMetric"))
    metric.dataset_meta = dict(classes=CLASSES)
    metric.process(None, [{**facts.to_dict(), "pred_instances": found}])
    assert metric.evaluate(1)["segments/mAP"] == 1
