"""Wrong setups are found before the first step; what runs is not refused."""

import copy
import re
from pathlib import Path

import pytest
import torch
from mmcv.transforms import BaseTransform
from mmengine.config import Config
from mmengine.runner import Runner

from mmvidformer.engine.bad_videos import apply_policy
from mmvidformer.engine.loading import WrongWeights
from mmvidformer.engine.preflight.hook import PreflightHook, WrongSetup
from mmvidformer.engine.preflight.lists import explain_list
from mmvidformer.registry import TRANSFORMS

NAMES = [f"{letter}.mp4" for letter in "abcd"]
DATASET = "train_dataloader.dataset"
PIPELINE = f"{DATASET}.pipeline"


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Make a config of four videos, two classes and clips of 4 x 32 x 32."""
    monkeypatch.chdir(tmp_path)

    def make(lines: str | None = None, **changes: object) -> Config:
        for name in NAMES:
            Path(name).write_bytes(b"x")
        default = "".join(f"{name} {i % 2}\n" for i, name in enumerate(NAMES))
        Path("list.txt").write_text(default if lines is None else lines)
        cfg = Config.fromfile(Path(__file__).parents[1] / "tools" / "tiny_vivit.py")
        cfg.model.cls_head.num_classes = 2
        cfg.work_dir = str(tmp_path / "work")
        for split in ("train", "val", "test"):
            dataset = cfg[f"{split}_dataloader"].dataset
            dataset.ann_file, dataset.data_prefix = "list.txt", dict(video=str(tmp_path))
        cfg.merge_from_dict(copy.deepcopy(changes))  # it consumes _delete_
        return cfg

    return make


def found(cfg: Config, *splits: str) -> tuple[list[str], list[str]]:
    """Errors and warnings of a run of these splits, by default of training."""
    runner, warnings = Runner.from_cfg(cfg), []
    runner.logger.warning = warnings.append
    apply_policy(runner)
    if "test" in splits:
        runner._test_loop = runner.build_test_loop(runner._test_loop)
    else:
        runner._train_loop = runner.build_train_loop(runner._train_loop)
        runner.optim_wrapper = runner.build_optim_wrapper(runner.optim_wrapper)
    if "val" in splits:
        runner._val_loop = runner.build_val_loop(runner._val_loop)
    try:
        PreflightHook().before_run(runner)
    except WrongSetup as error:
        first, *errors, hint = str(error).split("\n")
        assert "found before the start" in first and "--no-preflight" in hint
        return [line.removeprefix("- ") for line in errors], warnings
    return [], warnings


def test_nothing_is_wrong(config):
    assert found(config(), "train", "val") == found(config(), "test") == ([], [])


TASKS = dict(_delete_=True, tasks=dict(noun=2, verb=2), in_channels=16)
ERRORS = {
    "no_label": ("a.mp4 0\nb.mp4\n", {}, "list.txt, line 2: label must be in 0 to 1 .* got -1; 1"),
    "too_high": (
        "a.mp4 0\nb.mp4 2\nc.mp4 7\n",
        {},
        r"line 2: .*\(model.cls_head.num_classes is 2\), got 2; 2 wrong in all",
    ),
    "negative": ("a.mp4 0\nb.mp4 -2\n", {}, "line 2: label must be in 0 to 1 .* got -2"),
    "missing": (
        "a.mp4 0\nx.mp4 0\ny.mp4 1\n",
        {},
        r"line 2: 2 of 3 files .*, the first is '.*x.mp4'",
    ),
    "mark": ("\ufeffa.mp4 0\n", {}, r"line 1: 1 of 1 files are missing .*/\\ufeffa.mp4'"),
    "mixup": (
        None,
        {"model.data_preprocessor.blending": dict(type="MixupBlending", num_classes=7)},
        "model.data_preprocessor.blending.num_classes must be 2 as in model.cls_head, got 7",
    ),
    "tubelet": (
        None,
        {f"{PIPELINE}.1.clip_len": 5},
        r"clips are 5 x 32 x 32 \(.*\), but must be a multiple of the tubelet 2 x 16 x 16",
    ),
    "patch": (
        None,
        {f"{PIPELINE}.4.crop_size": 40},
        r"clips are 4 x 40 x 40 .* tubelet 2 x 16 x 16",
    ),
    "batch": (
        None,
        {"train_dataloader.batch_size": 5, "train_dataloader.drop_last": True},
        "no batch: 4 samples for 1 processes, batch_size is 5 with drop_last",
    ),
    "tasks": (
        "a.mp4 2\n",
        {"model.cls_head": dict(type="mmvidformer.MultiTaskHead", **TASKS)},
        r"line 1: label must be in 0 to 1 \(model.cls_head.noun is 2\), got 2",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error(config, name):
    lines, changes, message = ERRORS[name]
    (error,) = found(config(lines, **changes))[0]
    assert re.search(message, error), error


SIDES = {f"{DATASET}.metainfo": dict(classes=["turn_left", "jump"])}
BRIGHT = {f"{DATASET}.metainfo": dict(classes=["upright", "jump"])}


def on_device(kind: str, **kwargs: object) -> dict:
    """A data preprocessor with one augmentation."""
    step = dict(type=f"mmvidformer.{kind}", **kwargs)
    changes = dict(type="mmvidformer.VideoDataPreprocessor", augment=[step])
    return {"model.data_preprocessor": changes}


FLIP, RESIZED = {f"{PIPELINE}.6": dict(type="Flip")}, "will resize its positions"
SWAPPED = on_device("ClipFlip", label_map={0: 1, 1: 0})
WARNINGS = {
    "longer": ({f"{PIPELINE}.1.clip_len": 8}, rf"8 x 32 x 32 .* for 4 x 32 x 32 and {RESIZED}"),
    "larger": ({f"{PIPELINE}.4.crop_size": (64, 48)}, rf"are 4 x 48 x 64 .*{RESIZED}"),
    "names": ({f"{DATASET}.metainfo": dict(classes=["a"])}, "1 class names, but .* is 2"),
    "batch": (
        {"auto_scale_lr.base_batch_size": 64, "optim_wrapper.accumulative_counts": 2},
        r"batch size is 8 \(4 x 1 processes x 2 steps\), .* for 64 .*--auto-scale-lr",
    ),
    "flip": ({**SIDES, **FLIP}, "Flip mirrors clips, but the class 'turn_left' names a side"),
    "flip_on_device": ({**SIDES, **on_device("ClipFlip")}, "ClipFlip mirrors clips"),
    "map": ({**BRIGHT, **SWAPPED}, "ClipFlip changes the class 0 .* names no side"),
    "map_of_other_data": (on_device("ClipFlip", label_map={86: 87}), "changes the class 86"),
    "data_root": ({"data_root": "data/mine"}, "data_root is data/mine, but train_dataloader"),
    "augment": ({"augment": [], **on_device("ClipErasing")}, r"augment is \[\], but model.d"),
    "frozen": (
        {"model.backbone.frozen_stages": 2},
        r"ViViT \(model.backbone\) is frozen, but no weights are loaded into it",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning(config, name):
    changes, message = WARNINGS[name]
    errors, (warning,) = found(config(**changes))
    assert errors == [] and re.search(message, warning), warning


FINE = {
    "oversampling": ("a.mp4 0\na.mp4 0\n", {}),
    "old_mac": ("a.mp4 0\rb.mp4 1\r", {}),
    "dots": ("../{root}/a.mp4 0\n", {}),
    "no_suffix": ("a 0\n", {}),
    "elsewhere": ("x.mp4 0\n", {f"{PIPELINE}.0.io_backend": "petrel"}),
    "several": ("a.mp4 0 1\n", {f"{DATASET}.multi_class": True, f"{DATASET}.num_classes": 2}),
    "flip": (None, {**BRIGHT, **FLIP}),
    "vertical": (
        None,
        {**SIDES, f"{PIPELINE}.6": dict(type="Flip", direction="vertical")},
    ),
    "map": (None, {f"{DATASET}.metainfo": dict(classes=["TurnLeft", "LEFT"]), **SWAPPED}),
    "scaled": (None, {"auto_scale_lr.base_batch_size": 64, "auto_scale_lr.enable": True}),
    "frozen": (None, {"model.backbone.frozen_stages": 2, "load_from": "weights.pth"}),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_fine(config, name, tmp_path):
    lines, changes = FINE[name]
    assert found(config(lines and lines.format(root=tmp_path.name), **changes)) == ([], [])


@pytest.mark.parametrize(
    ("policy", "errors", "warnings"),
    [
        (None, 1, 0),
        (dict(on_bad_video="raise"), 1, 0),
        (dict(on_bad_video="resample", max_bad_share=0.5), 0, 1),
        (dict(on_bad_video="resample", max_bad_share=0.2), 1, 0),
    ],
)
def test_the_policy_for_bad_videos_allows_missing_files(config, policy, errors, warnings):
    lists = found(config("a.mp4 0\nx.mp4 0\n", bad_videos=policy))
    assert [*map(len, lists)] == [errors, warnings]
    assert re.search(r"line 2: 1 of 2 files are missing .*x\.mp4'", "".join(sum(lists, [])))


def test_labels_of_evaluation(config):
    """A test needs none, and a validation runs without."""
    assert found(config("a.mp4\nb.mp4\n"), "test") == ([], [])
    assert "got 7" in found(config("a.mp4 7\n"), "test")[0][0]
    cfg = config("a.mp4\n")
    cfg.train_dataloader.dataset.ann_file = "train.txt"
    Path("train.txt").write_text("a.mp4 0\n")
    errors, (warning,) = found(cfg, "train", "val")
    assert errors == [] and "got -1" in warning


WRAPPERS = {
    "RepeatDataset": lambda inner: dict(type="RepeatDataset", times=2, dataset=inner),
    "ConcatDataset": lambda inner: dict(type="ConcatDataset", datasets=[inner, inner]),
    "SafeDataset": lambda inner: dict(type="mmvidformer.SafeDataset", dataset=inner),
}
WRAPPERS["several"] = lambda inner: WRAPPERS["SafeDataset"](
    WRAPPERS["RepeatDataset"](WRAPPERS["ConcatDataset"](inner))
)


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapped_datasets_are_checked(config, name):
    cfg = config("a.mp4 9\n")
    cfg.train_dataloader.dataset = WRAPPERS[name](cfg.train_dataloader.dataset)
    (error,) = found(cfg)[0]
    assert "label must be in 0 to 1" in error


def test_a_dataset_may_have_a_policy_of_its_own(config):
    cfg = config("a.mp4 0\nx.mp4 0\n", bad_videos=dict(on_bad_video="raise"))
    inner, policy = cfg.train_dataloader.dataset, dict(on_bad_video="resample", max_bad_share=0.5)
    safe = dict(type="mmvidformer.SafeDataset", dataset=inner, **policy)
    cfg.train_dataloader.dataset = WRAPPERS["RepeatDataset"](safe)
    assert [*map(len, found(cfg))] == [0, 1]


def test_the_hook_ends_a_run(config):
    """All errors are listed."""
    cfg = config("a.mp4 9\nx.mp4 0\n")
    cfg.default_hooks.preflight = dict(type="mmvidformer.PreflightHook")
    with pytest.raises(WrongSetup, match=r"^2 problems found .*\n- .*label.*\n- .*missing.*\n"):
        Runner.from_cfg(cfg).train()


@pytest.mark.parametrize(
    ("lines", "changes", "explained"),
    [
        ("a.mp4 zero\n", {}, "list.txt, line 1: expected 'PATH LABEL'"),
        (None, {f"{DATASET}.typo": 1}, None),
        (None, {f"{DATASET}.filter_cfg": 1, f"{DATASET}.type": "PoseDataset"}, None),
    ],
)
def test_only_malformed_lists_are_explained(config, lines, changes, explained):
    with pytest.raises(Exception) as error:
        Runner.from_cfg(config(lines, **changes)).train()
    found = explain_list(error.value)
    assert found == explained or explained in found


def test_parts_of_others_are_warned_about(config):
    """A transform of the user's own may change labels and find files."""

    @TRANSFORMS.register_module(force=True)
    class Relabel(BaseTransform):
        def transform(self, results: dict) -> dict:
            return results

    cfg = config("x.mp4 9\n")
    cfg.train_dataloader.dataset.pipeline.insert(0, dict(type="mmvidformer.Relabel"))
    errors, warnings = found(cfg)
    assert errors == [] and len(warnings) == 2


@pytest.fixture
def runner(config):
    """A runner for training or testing from weights with a head of five classes."""

    def make(loop: str, **changes: object) -> tuple[Runner, dict]:
        five = Runner.from_cfg(config(**{"model.cls_head.num_classes": 5, "experiment_name": "5"}))
        made = Runner.from_cfg(config(load_from="a.pth", **changes))
        setattr(made, loop, getattr(made, f"build{loop}")(getattr(made, loop)))
        return made, {"state_dict": five.model.state_dict(), "meta": {}, "message_hub": {}}

    return make


def test_training_starts_with_weights_that_fit(runner):
    """Tables of positions are resized."""
    size = {"model.backbone.img_size": 64, "model.backbone.clip_len": 8}
    made, loaded = runner("_train_loop", **size)
    warnings = []
    made.logger.warning = warnings.append
    names = set(loaded["state_dict"])
    PreflightHook().after_load_checkpoint(made, loaded)
    assert re.search(r"a.pth: 2 of another shape \(cls_head.* keeps its initial w", warnings[0])
    assert loaded["state_dict"].keys() == {x for x in names if not x.startswith("cls_head.")}
    with pytest.raises(WrongWeights, match="a.pth does not fit"):
        PreflightHook().after_load_checkpoint(made, {"other": torch.zeros(1)})


def test_testing_needs_all_weights_but_a_head_of_features(runner):
    made, loaded = runner("_test_loop")
    with pytest.raises(WrongWeights, match="a.pth does not fit .* 2 of another shape"):
        PreflightHook().after_load_checkpoint(made, loaded)
    features = dict(_delete_=True, type="FeatureHead")
    made, loaded = runner("_test_loop", **{"model.cls_head": features, "experiment_name": "f"})
    PreflightHook().after_load_checkpoint(made, loaded)


def test_resuming_needs_the_state_of_training(runner):
    made, loaded = runner("_train_loop", resume=True, **{"model.cls_head.num_classes": 5})
    PreflightHook().after_load_checkpoint(made, dict(loaded))
    del loaded["message_hub"]
    with pytest.raises(WrongWeights, match="has no training state; set load_from for its weights"):
        PreflightHook().after_load_checkpoint(made, loaded)
