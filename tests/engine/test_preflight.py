"""Wrong setups are found before the first step; what runs is not refused."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from mmcv.transforms import BaseTransform
from mmengine.config import Config
from mmengine.runner import Runner

from mmvidformer.engine.bad_videos import apply_policy
from mmvidformer.engine.preflight.hook import PreflightHook, WrongSetup
from mmvidformer.engine.preflight.pairs import check_pairs
from mmvidformer.registry import TRANSFORMS
from mmvidformer.tasks.datasets import SpanDataset

DATASET = "train_dataloader.dataset"
PIPELINE = f"{DATASET}.pipeline"


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
        assert first == "found before the start:" and "default_hooks.preflight=None" in hint
        return [line.removeprefix("- ") for line in errors], warnings
    return [], warnings


def test_nothing_is_wrong(config):
    cfg = config("c.mp4 0\nd.mp4 1\n")
    cfg.train_dataloader.dataset.ann_file = "train.txt"
    Path("train.txt").write_text("a.mp4 0\nb.mp4 1\n")
    assert found(cfg, "train", "val") == found(cfg, "test") == ([], [])


def test_videos_of_training_in_validation(config):
    cfg = config(f"a.mp4 0\n../{Path.cwd().name}/b.mp4 1\nlink.mp4 0\nd.mp4 1\n")
    cfg.train_dataloader.dataset.ann_file = "train.txt"
    Path("train.txt").write_text("a.mp4 0\nb.mp4 1\nc.mp4 0\n")
    Path("link.mp4").symlink_to("c.mp4")
    errors, (warning,) = found(cfg, "train", "val")
    assert not errors and re.search(
        "3 of 4 videos of val_dataloader are in train_dataloader too, such as '.*a.mp4'", warning
    )


def test_videos_of_spans_in_two_splits(tmp_path):
    """Whatever the datasets read beside their paths."""
    datasets = {}
    for split, names in (("train", "ab"), ("val", "bc")):
        file = tmp_path / f"{split}.csv"
        file.write_text("video,start,end,label\n" + "".join(f"{x}.mp4,0,1,run\n" for x in names))
        datasets[split] = [SpanDataset(str(file), [], metainfo=dict(classes=["run"]))]
    (problem,) = check_pairs(datasets)
    assert problem[1].startswith("1 of 2 videos of val_dataloader are in train_dataloader too")


def test_lines_that_contradict_each_other(config):
    lines = "a.mp4 0\nb.mp4 1\nb.mp4 1\na.mp4 1\n"
    errors, (warning,) = found(config(lines))
    known = "list.txt: videos that are named again, with another label: 1, .* in entries 1 and 4"
    assert not errors and re.search(known, warning)
    errors, warnings = found(config(lines), "test")
    assert not errors and len(warnings) == 2 and re.search(known, warnings[0])
    assert "named again, with the same label: 1, such as" in warnings[1]


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
    "mixup": (
        None,
        {"model.data_preprocessor.blending": dict(type="MixupBlending", num_classes=7)},
        "model.data_preprocessor.blending.num_classes must be 2 as in model.cls_head, got 7",
    ),
    "weights": (
        None,
        {"model.cls_head.loss_cls": dict(type="CrossEntropyLoss", class_weight=[1.0, 2.0, 1.0])},
        "loss_cls.class_weight must have a weight for each of 2 classes, got 3",
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


FLIP = {f"{PIPELINE}.6": dict(type="Flip")}
SWAPPED = on_device("ClipFlip", label_map={0: 1, 1: 0})
WARNINGS = {
    "names": ({f"{DATASET}.metainfo": dict(classes=["a"])}, "1 class names, but .* is 2"),
    "batch": (
        {"auto_scale_lr.base_batch_size": 64, "optim_wrapper.accumulative_counts": 2},
        r"batch size is 8 \(4 x 1 processes x 2 steps\), .* for 64 .*--auto-scale-lr",
    ),
    "flip": (
        {**SIDES, **FLIP},
        "Flip mirrors clips, but the class 'turn_left' names a side; set its flip_label_map",
    ),
    "flip_on_device": ({**SIDES, **on_device("ClipFlip")}, "ClipFlip mirrors clips"),
    "map": ({**BRIGHT, **SWAPPED}, "ClipFlip changes the class 0 .* names no side"),
    "map_of_other_data": (on_device("ClipFlip", label_map={86: 87}), "changes the class 86"),
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
    errors, (warning,) = found(config("a.mp4\nb.mp4\n"), "test")
    assert errors == [] and "got -1; 2 wrong" in warning
    assert "got 7" in found(config("a.mp4 7\n"), "test")[0][0]
    cfg = config("a.mp4\n")
    cfg.train_dataloader.dataset.ann_file = "train.txt"
    Path("train.txt").write_text("b.mp4 0\n")
    errors, (warning,) = found(cfg, "train", "val")
    assert errors == [] and "got -1" in warning


def test_variables_of_a_config_that_change_nothing_are_named(config) -> None:
    """Also if MMEngine alone reads the config."""
    cfg = config()
    Path("mine.py").write_text(f"_base_ = {cfg.filename!r}\npipeline = []\n")
    mine = Config.fromfile("mine.py")
    mine.merge_from_dict({key: cfg[key] for key in ("model", "work_dir")})
    mine.train_dataloader.dataset = cfg.train_dataloader.dataset
    (error,) = found(mine)[0]
    assert "mine.py: pipeline has no effect, since test_dataloader, train_dataloader, val_" in error


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


@pytest.mark.parametrize("other, warnings", [("3.4.1.2", 1), (version("opencv-python"), 0)])
def test_two_versions_of_opencv(config, monkeypatch, tmp_path, other, warnings) -> None:
    package = tmp_path / "opencv_python_headless-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text(f"Name: opencv-python-headless\nVersion: {other}\n")
    monkeypatch.syspath_prepend(tmp_path)
    errors, said = found(config("a.mp4 0\nb.mp4 1\n"))
    assert errors == [] and len(said) == warnings
    for text in said:
        assert f"opencv-python-headless {other} share one folder" in text


def test_the_hook_ends_a_run(config):
    """All errors are listed."""
    cfg = config("a.mp4 9\nx.mp4 0\n")
    cfg.default_hooks.preflight = dict(type="mmvidformer.PreflightHook")
    with pytest.raises(WrongSetup, match=r"^found before .*\n- .*label.*\n- .*missing.*\n"):
        Runner.from_cfg(cfg).train()


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
