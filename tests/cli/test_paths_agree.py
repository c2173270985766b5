"""All ways from a video to scores agree, for a portrait video and one of variable rate.

The config is the shipped one for videos of one's own, with a tiny model.
"""

import json
import pickle
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmaction.apis.inferencers import MMAction2Inferencer
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.registry import DefaultScope

from mmvidformer import get_config
from mmvidformer.apis import Recognizer
from mmvidformer.engine.offer_options import Limits
from mmvidformer.engine.pipelines import set_views
from mmvidformer.finetune.recipe import apply_recipe
from mmvidformer.finetune.settings import Recipe
from mmvidformer.registry import DATASETS, MODELS
from mmvidformer.tasks.lists import read_task_lists
from mmvidformer.web.answers import Answer, answer_page
from tests.export.recognizers import need_onnx
from tests.export.stand_in import stand_in_for_onnx
from tests.video.toys import VARIABLE, write_clock

ROOT = Path(__file__).parents[2]
CLASSES = ("feed", "groom", "rest")
VIDEOS = ("portrait.mp4", "variable.mp4")
ROWS = {
    "classes": ["{} 1"],
    "labels": ["{} 0 2"],
    "number": ["video,level,size", "{0},{1}.5,7"],
    "frames": ["video,start,end,label", "{},0,1,feed", "{},1,1.6,rest"],
    "segments": ["video,start,end,label", "{},0,1,feed", "{},0.5,1.6,rest"],
    "moments": ["video,time,label", "{},0.2,feed", "{},1.5,rest"],
}
TOLERANCE = dict(atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def videos(tmp_path_factory) -> Path:
    """A portrait video of 2 s, and one of variable rate, also portrait."""
    folder, rng = tmp_path_factory.mktemp("videos"), np.random.default_rng(0)
    writer = cv2.VideoWriter(
        str(folder / "portrait.mp4"), cv2.VideoWriter_fourcc(*"mp4v"), 25, (64, 112)
    )
    for number in range(48):
        frame = rng.integers(0, 60, (112, 64, 3), dtype=np.uint8)
        frame[2 * number : 2 * number + 16, :, number % 3] += 150
        writer.write(frame)
    writer.release()
    write_clock(folder / "variable.mp4", next(iter(VARIABLE.values())), size=(64, 112))
    return folder


@pytest.fixture(scope="module", params=ROWS)
def task(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=["1x1", "3x3"])
def views(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def run(task: str, views: str, videos: Path, tmp_path_factory) -> tuple[str, str]:
    """What finetune writes for a task, with these test views; and random weights."""
    folder = tmp_path_factory.mktemp("run")
    suffix = "txt" if task in ("classes", "labels") else "csv"
    header, *rows = ROWS[task] if suffix == "csv" else ("", *ROWS[task])
    for split in ("train", "val", "test"):
        lines = [header] if header else []
        for number, video in enumerate(VIDEOS):
            lines += [row.format(videos / video, number) for row in rows]
        (folder / f"{split}.{suffix}").write_text("".join(f"{line}\n" for line in lines))
    (folder / "classes.txt").write_text("".join(f"{name}\n" for name in CLASSES))
    base = get_config("vivit_fe_motion")
    base.model.backbone.arch.update(embed_dims=16, depth=1, num_heads=2)
    base.model.backbone.temporal_depth = 1
    base.model.cls_head.in_channels = 16
    cfg, _ = apply_recipe(base, read_task_lists(folder, task), Recipe(task=task, workers=0))
    for split in ("val", "test"):
        cfg[f"{split}_dataloader"].update(persistent_workers=False, timeout=0)
    clips, crops = map(int, views.split("x"))
    set_views(cfg, clips if task in ("classes", "labels", "number") else 1, crops)
    cfg.dump(folder / "config.py")
    torch.manual_seed(3)
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(cfg.model)
        model.init_weights()
    for name, parameter in model.named_parameters():
        if name.startswith("cls_head") and parameter.dim() > 1:  # scores that differ
            torch.nn.init.normal_(parameter, std=0.5)
    torch.save({"state_dict": model.state_dict()}, folder / "weights.pth")
    return str(folder / "config.py"), str(folder / "weights.pth")


def scores_of(sample: object) -> np.ndarray:
    """Scores of a data sample; of segments each with its ends, in order."""
    found = sample if isinstance(sample, dict) else sample.to_dict()
    if "pred_instances" in found:
        parts = found["pred_instances"]
        rows = torch.cat([parts["segments"], parts["scores"][:, None]], dim=1)
        return rows[parts["scores"].argsort(descending=True)][:20].numpy()
    return found["pred_score"].numpy()


@pytest.fixture(scope="module")
def expected(run: tuple[str, str]) -> list[np.ndarray]:
    """Scores of the videos by the test pipeline of the config, read and computed step by step."""
    return list(by_dataset(run, "test"))


def by_dataset(run: tuple[str, str], split: str) -> Iterator[np.ndarray]:
    cfg = Config.fromfile(run[0])
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(cfg.model).eval()
        model.load_state_dict(torch.load(run[1])["state_dict"])
        dataset = DATASETS.build(cfg[f"{split}_dataloader"].dataset)
        for number in range(len(dataset)):
            with torch.no_grad():
                (sample,) = model.test_step(pseudo_collate([dataset[number]]))
            yield scores_of(sample)


def assert_same(found: list, expected: list, **tolerance: float) -> None:
    assert len(found) == len(expected) == 2
    for scores, wanted in zip(found, expected, strict=True):
        assert np.ptp(wanted) > 0.01
        np.testing.assert_allclose(scores, wanted, **(tolerance or TOLERANCE))
    assert np.abs(expected[0][: len(expected[1])] - expected[1][: len(expected[0])]).max() > 1e-3


def test_validation_is_testing_with_one_view(run, views, expected, test, tmp_path) -> None:
    options = ["--split", "val", "--work-dir", str(tmp_path)]
    for extra, wanted in (([], expected), (["--views", "1x1"], list(by_dataset(run, "val")))):
        dump = tmp_path / f"scores{len(extra)}.pkl"
        test([*run, *options, *extra, "--dump", str(dump)])
        samples = pickle.loads(dump.read_bytes())
        assert_same([scores_of(sample) for sample in samples], wanted)
    if views == "1x1":
        assert_same(list(by_dataset(run, "val")), expected)


def test_a_recognizer(run, task, videos, expected) -> None:
    recognizer = Recognizer(*run)
    found = []
    for video in VIDEOS:
        if task in ("segments", "moments"):
            parts = list(recognizer.timeline(videos / video, min_score=0.0))
            rows = [(*part.seconds, part.top(1)[0][2]) for part in parts]
            rows = sorted(rows, key=lambda row: -row[2])[:20]
            found.append(np.array(rows))
            continue
        parts = list(recognizer.timeline(videos / video)) if task == "frames" else None
        rows = [answer.scores for answer in parts or [recognizer(videos / video)]]
        scores = np.array([next(iter(row.values())) for row in rows])
        found.append(scores if parts else scores[0])
    assert_same(found, expected)


def test_rows_of_label(run, task, videos, expected, main_of, tmp_path) -> None:
    """Probabilities, or values."""
    if task in ("segments", "moments"):
        pytest.skip("label writes segments above a score: see test_a_recognizer")
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    out = tmp_path / "labels"
    assert main_of("label")([*run, str(videos), "--out", str(out)]) == 0
    rows = sorted(pq.read_table(out).to_pylist(), key=lambda row: (row["video"], row["start"] or 0))
    found = []
    for video in VIDEOS:
        of_video = [row for row in rows if row["video"] == video]
        if task == "number":
            found.append(np.array([[row["level"], row["size"]] for row in of_video]))
        else:
            found.append(np.array([row["probabilities"] for row in of_video]))
    wanted = expected
    if task == "classes":
        wanted = [torch.from_numpy(scores).softmax(-1).numpy() for scores in expected]
    shapes = [np.reshape(row, scores.shape) for row, scores in zip(found, wanted, strict=True)]
    assert_same(shapes, wanted)


WHOLE = ("classes", "labels", "number")


@pytest.fixture
def whole(task: str) -> None:
    """Tasks with one answer for a video."""
    if task not in WHOLE:
        pytest.skip("the model answers for parts of a video")


def probabilities(task: str, scores: np.ndarray) -> np.ndarray:
    """Probabilities of the scores of a class; labels are probabilities already, and values stay."""
    return torch.from_numpy(scores).softmax(-1).numpy() if task == "classes" else scores


@pytest.mark.usefixtures("whole")
def test_the_demo(run, task, videos, expected, main_of, tmp_path) -> None:
    file = tmp_path / "records.json"
    paths = [str(videos / video) for video in VIDEOS]
    assert main_of("demo")([*run, *paths, "--json", str(file)]) == 0
    (labels,) = Recognizer(*run).names.values()
    found = []
    for line in file.read_text().splitlines():
        record = json.loads(line)
        if task == "number":
            found.append(np.array([record[name] for name in ("level", "size")]))
            continue
        scores = np.zeros(3)
        for best in record["top"]:
            scores[labels.index(best["label"])] = best["score"]
        found.append(scores)
    wanted = [probabilities(task, scores) for scores in expected]
    assert_same(found, wanted, atol=1e-4)


@pytest.mark.usefixtures("whole")
def test_the_inferencer_of_mmaction2(run, videos, expected) -> None:
    inferencer = MMAction2Inferencer(rec=run[0], rec_weights=run[1], device="cpu")
    found = []
    for video in VIDEOS:
        (row,) = inferencer(str(videos / video), print_result=False)["predictions"]
        found.append(np.array(row["rec_scores"][0]))
    assert_same(found, expected)


@pytest.mark.usefixtures("whole")
def test_features_and_the_head(run, task, videos, expected, main_of, tmp_path) -> None:
    if task != "classes":
        pytest.skip("features of all views are averaged, as logits are, but not probabilities")
    assert main_of("features")([*run, str(videos), "--files", "--out", str(tmp_path / "out")]) == 0
    head = Recognizer(*run).model.cls_head.fc_cls
    found = []
    for video in VIDEOS:
        features = torch.from_numpy(np.load(tmp_path / "out" / f"{video}.npy"))
        found.append(head(features).detach().numpy())
    assert_same(found, expected)


@pytest.mark.usefixtures("whole")
def test_an_exported_file_and_its_example(
    run, task, views, videos, expected, main_of, tmp_path, monkeypatch
) -> None:
    need_onnx()
    if task == "number":
        pytest.skip("the example is for classes")
    if (task, views) != ("classes", "3x3"):  # the operators are those of one file
        stand_in_for_onnx(monkeypatch)
    model, example = str(tmp_path / "model.onnx"), str(ROOT / "examples" / "onnx_video.py")
    assert main_of("export")([*run, "--out", model, "--pixels", "uint8"]) == 0
    found = []
    for video in VIDEOS:
        monkeypatch.setattr(sys, "argv", [example, model, str(videos / video)])
        found.append(runpy.run_path(example)["scores"])
    wanted = [probabilities(task, scores) for scores in expected]
    assert_same(found, wanted, atol=1e-4)


def test_the_page(run, task, views, videos, expected, tmp_path) -> None:
    """Its answer for a video of one window."""
    if task in ("frames", "segments", "moments"):
        pytest.skip("the page shows what timeline gives: see test_a_recognizer")
    recognizer = Recognizer(*run)
    video = str(videos / "portrait.mp4")
    parts = answer_page(recognizer, Limits(), Path(video), str(tmp_path))
    first = next(part for part in parts if isinstance(part, Answer))
    shown, wanted = first.classes, probabilities(task, expected[0])
    if task == "number":
        assert first.headline == f"level {wanted[0]:.4g}, size {wanted[1]:.4g}"
    else:
        scores = [shown[name] for name in CLASSES]
        np.testing.assert_allclose(scores, wanted, atol=1e-5)
