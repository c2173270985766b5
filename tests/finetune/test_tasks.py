"""Every family takes every task."""

from dataclasses import replace

import pytest
import torch
from mmengine.dataset import pseudo_collate

from lab.synthetic import PRESETS
from mmvidformer.apis import Recognizer
from mmvidformer.config import get_config
from mmvidformer.config.building import building
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.engine.preflight.checks import check_classes
from mmvidformer.finetune.recipe import apply_recipe
from mmvidformer.finetune.settings import Recipe
from mmvidformer.registry import DATASETS
from mmvidformer.tasks.lists import read_task_lists

FAMILIES = (
    *("vivit_fe_motion", "vivit_fsa_motion", "timesformer_motion", "feature_fixation_motion"),
    *("compose_windows_motion", "causal_transformer_early_motion", "horst_early_motion"),
    "camera_motion_videos",
)
PRESET = {"labels": "labels", "number": "speed", "frames": "scripts", "segments": "scripts",
          "boxes": "boxes", "moments": "starts"}  # fmt: skip
NO_PLACES = ("vivit_fe_motion", "causal_transformer_early_motion", "horst_early_motion")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folders of two generated videos for each split, by task."""
    root = tmp_path_factory.mktemp("tasks")
    for task, preset in PRESET.items():
        replace(PRESETS[preset], train=2, val=2, test=2).write(root / task)
    return root


@pytest.mark.parametrize("task", PRESET)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_takes_a_task(name: str, task: str, folder) -> None:
    cfg = get_config(name)
    lists = read_task_lists(folder / task, task)
    if task == "boxes" and name in NO_PLACES:
        with pytest.raises(ValueError, match="boxes need"):
            apply_recipe(cfg, lists, Recipe(task=task))
        return
    cfg, _ = apply_recipe(cfg, lists, Recipe(task=task))
    torch.manual_seed(0)
    model = load_recognizer(cfg, None, "cpu").train()
    if task in ("segments", "moments"):
        model.cls_head.score_thr = 0.0
    with building(cfg):
        train, test = (
            DATASETS.build(cfg[f"{split}_dataloader"].dataset) for split in ("train", "test")
        )
    data = model.data_preprocessor(pseudo_collate([train[0], train[1]]), training=True)
    losses = model(**data, mode="loss")
    assert losses["loss_cls"].isfinite()
    losses["loss_cls"].backward()
    gradients = [p.grad for p in model.backbone.parameters() if p.grad is not None]
    assert gradients and all(g.isfinite().all() for g in gradients)
    with torch.no_grad():
        (found,) = model.eval().test_step(pseudo_collate([test[0]]))
    count = len(lists.classes)
    if task == "boxes":
        assert found.pred_instances.scores.shape == (3, 1 + count)
    elif task in ("segments", "moments"):
        instances = found.pred_instances
        starts, ends = instances.segments.T
        assert torch.equal(starts, ends) == (task == "moments")
        assert len(instances) and instances.segments.shape == (len(instances), 2)
        assert (instances.segments <= found.total_frames / found.avg_fps + 1e-5).all()
    elif task != "frames":
        assert found.pred_score.shape == (count,)
    else:
        steps = round(found.total_frames / found.step)
        assert found.pred_score.shape == (steps, count)
        torch.testing.assert_close(found.pred_score.sum(dim=1), torch.ones(steps))


def test_frames_need_regular_samples(folder) -> None:
    lists = read_task_lists(folder / "frames", "frames")
    with pytest.raises(ValueError, match="such as SampleFrames, got VideoInit, Seg"):
        apply_recipe(get_config("timesformer_b_sthv2"), lists, Recipe(task="frames"))


def test_what_does_not_fit_a_task_is_removed_and_said(folder) -> None:
    cfg = get_config("vivit_fsa_motion")
    cfg.model.data_preprocessor.update(
        augment=[dict(type="mmvidformer.ClipFlip")], blending=dict(type="MixupBlending")
    )
    lists = read_task_lists(folder / "boxes", "boxes")
    cfg, said = apply_recipe(cfg, lists, Recipe(task="boxes"))
    for name in ("augment", "blending"):
        assert name not in cfg.model.data_preprocessor
        assert f"{name} is removed: it does not know these annotations" in said


def test_segments_are_not_found_frame_by_frame(folder) -> None:
    lists = read_task_lists(folder / "segments", "segments")
    cfg, _ = apply_recipe(get_config("horst_early_motion"), lists, Recipe(task="segments"))
    with pytest.raises(ValueError, match="of segments does not answer frame by frame"):
        next(Recognizer(cfg, None).frame_by_frame([]))


def test_classes_of_the_head_and_of_boxes_must_agree(folder) -> None:
    """They would be cut off in silence."""
    lists = read_task_lists(folder / "boxes", "boxes")
    cfg, _ = apply_recipe(get_config("vivit_fsa_motion"), lists, Recipe(task="boxes"))
    cfg.model.cls_head.num_classes = 3
    model = load_recognizer(cfg, None, "cpu")
    with building(cfg):
        dataset = DATASETS.build(cfg.train_dataloader.dataset)
    (problem,) = check_classes(dataset, model, "val")
    what = "val_dataloader.dataset has 4 class names, but model.cls_head.num_classes is 3"
    assert problem == (True, what)


@pytest.mark.parametrize(
    ("task", "suffix", "line"), [("frames", "csv", "a.mp4,,,"), ("labels", "txt", "a.mp4")]
)
def test_nothing_to_balance(task: str, suffix: str, line: str, tmp_path) -> None:
    header = "video,start,end,label\n" if suffix == "csv" else ""
    for split in ("train", "val", "test"):
        (tmp_path / f"{split}.{suffix}").write_text(f"{header}{line}\n")
    (tmp_path / "classes.txt").write_text("up\nbackground\n")
    lists = read_task_lists(tmp_path, task)
    with pytest.raises(ValueError, match=f"needs classes, but .*train.{suffix} has none"):
        apply_recipe(get_config("timesformer_motion"), lists, Recipe(task=task, balance="weights"))
