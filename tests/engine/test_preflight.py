"""Wrong annotations, configs and weights are found before the first step; what works is not."""

import logging
import re
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import EpochBasedTrainLoop
from safetensors.torch import save_file

from mmvidformer.config import config_scope
from mmvidformer.engine.loading import WrongWeights
from mmvidformer.engine.preflight import WrongSetup, check, check_run
from mmvidformer.engine.preflight.hook import PreflightHook
from mmvidformer.registry import MODELS

NAMES = [f"{letter}.mp4" for letter in "abcd"]
MODEL = dict(
    type="Recognizer3D",
    backbone=dict(
        type="mmvidformer.ViViT",
        arch=dict(embed_dims=16, depth=1, num_heads=2),
        img_size=32,
        clip_len=4,
        tubelet=(2, 16, 16),
        temporal_depth=1,
    ),
    cls_head=dict(type="TimeSformerHead", num_classes=2, in_channels=16),
)


def config(root: Path, lines: str | None = None, **changes: object) -> Config:
    """A config of four videos, two classes and clips of 4 x 32 x 32."""
    for name in NAMES:
        (root / name).write_bytes(b"x")
    default = "".join(f"{name} {i % 2}\n" for i, name in enumerate(NAMES))
    (root / "list.txt").write_text(default if lines is None else lines)
    cfg = Config(
        dict(
            default_scope="mmaction",
            model=MODEL,
            train_dataloader=dict(
                batch_size=2,
                dataset=dict(
                    type="VideoDataset",
                    ann_file=str(root / "list.txt"),
                    data_prefix=dict(video=str(root)),
                    pipeline=[
                        dict(type="DecordInit"),
                        dict(type="SampleFrames", clip_len=4),
                        dict(type="CenterCrop", crop_size=32),
                    ],
                ),
            ),
        )
    )
    cfg.merge_from_dict(changes)
    return cfg


def build(cfg: Config) -> torch.nn.Module:
    """The model of a config."""
    with config_scope(cfg):
        return MODELS.build(cfg.model)


def error(cfg: Config, world_size: int = 1) -> str:
    """The only error of a config."""
    (found,) = check(cfg, world_size=world_size)[0]
    return found


def warning(cfg: Config) -> str:
    """The only warning of a config without errors."""
    errors, (found,) = check(cfg)
    assert errors == []
    return found


def test_nothing_is_wrong(tmp_path):
    assert check(config(tmp_path)) == ([], [])


DATASET = "train_dataloader.dataset"
LINES = {
    "no_label": ("a.mp4 0\nb.mp4\n", "line 2: label must be in 0 to 1 .*got -1.*without label"),
    "blank_in_name": ("a b.mp4 0\n", r"line 1: must be .*PATH LABEL.* delimiter ' ', got 'a b"),
    "word": ("a.mp4 zero\n", "line 1: must be UTF-8 text of 2 columns .*got 'a.mp4 zero'"),
    "two_signs": ("a.mp4 0\na.mp4 --1\n", "line 2: must be .*got 'a.mp4 --1'"),
    "power": ("a.mp4 \u00b2\n", "line 1: must be .*got 'a.mp4 \u00b2'"),
    "mark": ("\ufeffa.mp4 0\n", r"list\.txt begins with a byte order mark"),
    "empty_file": ("", r"list\.txt has no samples"),
    "too_high": (
        "a.mp4 0\nb.mp4 2\nc.mp4 7\n",
        r"line 2: label must be in 0 to 1 \(model.cls_head.num_classes is 2\), got 2; 2 of 3 "
        "labels are wrong, they are 0 to 7",
    ),
    "from_one": ("a.mp4 1\nb.mp4 2\n", "line 2: label .* got 2; .* they are 1 to 2"),
    "negative": ("a.mp4 0\nb.mp4 -2\n", "line 2: label must be in 0 to 1 .* got -2"),
    "missing": (
        "a.mp4 0\nx.mp4 0\ny.mp4 1\n",
        r"line 2: 2 of 3 files are missing .*, the first is .*x\.mp4; .*data check",
    ),
    "extension": ("a.avi 0\n", r"1 of 1 files are missing.*a\.avi, but .*a\.mp4 exists"),
    "folder": ("train/a.mp4 0\n", r"train/a\.mp4, but .*a\.mp4 exists"),
}


@pytest.mark.parametrize("name", LINES)
def test_a_wrong_line_is_named_by_its_number(tmp_path, name):
    lines, message = LINES[name]
    assert re.search(message, error(config(tmp_path, lines)))


def test_a_list_must_be_utf8(tmp_path):
    cfg = config(tmp_path)
    (tmp_path / "list.txt").write_bytes(b"a.mp4 0\n\xe9.mp4 0\n")
    assert "list.txt, line 2: must be UTF-8 text" in error(cfg)


def test_an_empty_line_has_neither_label_nor_file(tmp_path):
    errors, warnings = check(config(tmp_path, "a.mp4 0\n\nb.mp4 1\n"))
    assert "line 2: label must be in 0 to 1" in errors[0] and "line 2: 1 of 3 files" in errors[1]
    assert len(errors) == 2 and warnings == []


def test_a_list_is_a_file(tmp_path):
    assert str(tmp_path) in error(config(tmp_path, **{f"{DATASET}.ann_file": str(tmp_path)}))


def test_a_list_of_old_macs_is_read(tmp_path):
    """MMAction2 reads it too."""
    assert check(config(tmp_path, "a.mp4 0\rb.mp4 1\r")) == ([], [])


def test_a_test_needs_no_labels(tmp_path):
    lines = "a.mp4\nb.mp4\n"
    assert "got -1 (a line without label); 2 of 2" in error(config(tmp_path, lines))
    cfg = config(tmp_path, lines)
    cfg.test_dataloader = cfg.pop("train_dataloader")
    assert check(cfg) == ([], [])


WORKS = {
    "oversampling": (
        "a.mp4 0\nb.mp4 1\na.mp4 0\n",
        r"line 3: .*a\.mp4 is also in .*line 1, with the",
    ),
    "contradiction": (
        "a.mp4 0\na.mp4 1\n",
        r"line 2: .*also in .*line 1, with another label; 1 such",
    ),
    "dots": ("a.mp4 0\n../{root}/b.mp4 0\n", None),
    "outside": (
        "a.mp4 0\n../c.mp4 0\n",
        r"line 2: .*\.\./c\.mp4 is outside of data_prefix .*; 1 of 2",
    ),
    "absolute": ("{outside}/c.mp4 0\n", r"line 1: .*c\.mp4 is outside of data_prefix"),
    "absolute_inside": ("{inside}/a.mp4 0\n", None),
}


@pytest.mark.parametrize("name", WORKS)
def test_what_works_is_a_warning_at_most(tmp_path, name):
    lines, message = WORKS[name]
    root = tmp_path / "data"
    root.mkdir()
    (tmp_path / "c.mp4").write_bytes(b"x")
    lines = lines.format(root=root.name, inside=root, outside=tmp_path)
    if message is None:
        assert check(config(root, lines)) == ([], [])
    else:
        assert re.search(message, warning(config(root, lines)))


def test_without_a_prefix_paths_are_as_they_are(tmp_path):
    cfg = config(tmp_path, f"{tmp_path}/a.mp4 0\n", **{f"{DATASET}.data_prefix": dict(video="")})
    assert check(cfg) == ([], [])


def test_a_wrong_prefix_is_named_with_the_right_path(tmp_path):
    cfg = config(tmp_path, **{f"{DATASET}.data_prefix.video": str(tmp_path / "videos")})
    assert re.search(
        rf"line 1: 4 of 4 files are missing .*videos/a\.mp4, but {tmp_path}/a\.mp4 exists",
        error(cfg),
    )


@pytest.mark.parametrize(("share", "found"), [(0.5, 0), (0.2, 1)])
@pytest.mark.parametrize("where", ["dataset", "hook"])
def test_some_files_may_be_missing_if_bad_videos_are_replaced(tmp_path, share, found, where):
    policy = dict(on_bad_video="resample", max_bad_share=share)
    cfg = config(tmp_path, "a.mp4 0\nx.mp4 0\n")
    if where == "hook":
        cfg.default_hooks = dict(bad_videos=dict(type="mmvidformer.BadVideoHook", **policy))
    else:
        inner = cfg.train_dataloader.dataset
        cfg.train_dataloader.dataset = dict(type="SafeDataset", dataset=inner, **policy)
    assert len(check(cfg)[0]) == found


V2 = "torchvision.transforms.v2"


def on_device(kind: str, **kwargs: object) -> dict:
    """A data preprocessor with one augmentation."""
    return dict(type="mmvidformer.VideoDataPreprocessor", augment=[dict(type=kind, **kwargs)])


SETTINGS = {
    "no_file": ({f"{DATASET}.ann_file": "gone.txt"}, "VideoDataset: gone.txt: No such file"),
    "prefix": ({f"{DATASET}.data_prefix": "videos"}, r"data_prefix must be a dict .*got 'videos'"),
    "type": (
        {f"{DATASET}.type": "VideoDatset"},
        r"VideoDatset is not in the mmaction::dataset registry\.$",
    ),
    "argument": (
        {f"{DATASET}.type": "mmvidformer.EpicKitchensDataset", f"{DATASET}.lables": 3},
        r"EpicKitchensDataset: .*unexpected keyword argument 'lables'",
    ),
    "transform": (
        {f"{DATASET}.pipeline.1.type": "SampleFrame"},
        "VideoDataset: SampleFrame is not in the .*transform registry",
    ),
    "no_dataset": ({"val_dataloader": dict(batch_size=1)}, "val_dataloader has no dataset"),
    "no_frames": ({f"{DATASET}.pipeline.1.clip_len": 0}, r"must be a multiple of \[2\], got \[0\]"),
    "text_frames": ({f"{DATASET}.pipeline.1.clip_len": "4"}, "VideoDataset: .*'str' and 'int'"),
    "tubelet": (
        {f"{DATASET}.pipeline.1.clip_len": 5},
        r"clip_len of clips must be a multiple of \[2\], got \[5\]",
    ),
    "patch": (
        {f"{DATASET}.pipeline.2.crop_size": 40},
        r"height and width of clips must be a multiple of \[16, 16\], got \[40, 40\]",
    ),
    "crop_on_the_device": (
        {"model.data_preprocessor": on_device(f"{V2}.RandomCrop", size=40)},
        r"height and width of clips must be a multiple of \[16, 16\], got \[40, 40\]",
    ),
    "augmentation": (
        {"model.data_preprocessor": on_device("Flip")},
        r"augmentations must be transforms of torchvision.*, got Flip$",
    ),
    "model": ({"model.backbone.tubelt": 2}, "unexpected keyword argument 'tubelt'"),
    "no_checkpoint": ({"load_from": "gone.pth"}, r"there is no checkpoint gone\.pth"),
    "config": ({"load_from": "config.py"}, r"config\.py is a config, not a checkpoint"),
    "folder": ({"load_from": "."}, r"\. has no complete\.json: not a sharded checkpoint, or an"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_setting_is_named(tmp_path, name):
    changes, message = SETTINGS[name]
    assert re.search(message, error(config(tmp_path, **changes)))


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("pipeline.1.clip_len", 8, r"clip_len of clips is \[8\], model.backbone is made for \[4\]"),
        ("pipeline.2.crop_size", (64, 48), r"is \[48, 64\], model.backbone is made for \[32, 32\]"),
    ],
)
def test_clips_of_another_size_are_a_warning(tmp_path, setting, value, message):
    """The docstring of the backbone promises that they work."""
    cfg = config(tmp_path, **{f"{DATASET}.{setting}": value})
    cfg.val_dataloader = cfg.train_dataloader
    assert re.search(message, warning(cfg))
    model = build(cfg)
    assert model.backbone(torch.zeros(1, 3, 8, 48, 64)).shape == (1, 16)


def test_overlapping_patches_need_no_multiples(tmp_path):
    cfg = config(tmp_path, **{f"{DATASET}.pipeline.2.crop_size": 44})
    cfg.model.backbone = dict(
        type="mmvidformer.FeatureFixationTransformer",
        arch=dict(embed_dims=16, depth=1, num_heads=2),
        img_size=44,
        clip_len=4,
    )
    assert check(cfg) == ([], [])


@pytest.mark.parametrize(("world_size", "most"), [(1, None), (2, 2), (3, 2)])
def test_a_batch_that_is_dropped_whole_is_refused(tmp_path, world_size, most):
    """Four videos in batches of 3."""
    cfg = config(tmp_path, **{"train_dataloader.batch_size": 3, "train_dataloader.drop_last": True})
    if most is None:
        assert check(cfg, world_size=world_size) == ([], [])
        return
    assert error(cfg, world_size) == (
        f"train_dataloader.batch_size must be at most {most} with drop_last, got 3: 4 samples are "
        f"shared by {world_size} processes"
    )
    inner = cfg.train_dataloader.dataset
    cfg.train_dataloader.dataset = dict(type="RepeatDataset", times=3, dataset=inner)
    assert check(cfg, world_size=world_size) == ([], [])


def saved(path: Path, state: dict) -> str:
    """Write weights in the format of the suffix."""
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save({"state_dict": state, "meta": {}, "message_hub": {}}, path)
    return str(path)


@pytest.fixture
def weights(tmp_path) -> dict:
    """Weights of the model, but for a head of five classes."""
    cfg = config(tmp_path)
    cfg.model.cls_head.num_classes = 5
    return build(cfg).state_dict()


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_weights_are_compared_with_the_model(tmp_path, weights, suffix):
    path = tmp_path / f"weights.{suffix}"
    cfg = config(tmp_path, load_from=saved(path, weights))
    assert check(cfg) == ([], [])  # training starts the head anew
    head = r"2 of another shape \(cls_head\.fc_cls\.weight \(5, 16\) instead of \(2, 16\), "
    test = config(tmp_path, load_from=str(path))
    test.test_dataloader = test.pop("train_dataloader")
    (message,) = check(test, ("test",))[0]
    assert re.search(rf"weights\.{suffix} does not fit the model of the config: {head}", message)

    few = {name: value for name, value in weights.items() if "embed" in name}
    saved(path, {**few, "other": torch.zeros(1)})
    assert re.search(
        r"\d+ missing \(\S+, \S+, \S+ and \d+ more\); 1 unexpected \(other\)", error(cfg)
    )
    saved(path, {f"module.{name}": value for name, value in weights.items()})
    assert check(cfg) == ([], [])
    saved(path, {"vivit.embeddings.weight": torch.zeros(2)})
    assert "none of the model's names" in error(cfg)
    path.write_bytes(path.read_bytes()[:-8])
    assert f"{path} is damaged" in error(cfg)


def test_resuming_needs_all_weights_and_the_state_of_training(tmp_path, weights):
    cfg = config(tmp_path, resume=True, load_from=saved(tmp_path / "a.pth", weights))
    assert "2 of another shape" in error(cfg)
    cfg.model.cls_head.num_classes = 5
    assert check(cfg) == ([], [])
    torch.save({"state_dict": weights}, tmp_path / "a.pth")
    assert "a.pth has no training state to resume; set load_from" in error(cfg)


def test_position_tables_of_another_size_fit(tmp_path, weights, caplog):
    cfg = config(tmp_path, load_from=saved(tmp_path / "a.pth", weights))
    cfg.model.cls_head.num_classes = 5
    cfg.model.backbone.update(img_size=64, clip_len=8)
    cfg.train_dataloader.dataset.pipeline[1].clip_len = 8
    cfg.train_dataloader.dataset.pipeline[2].crop_size = 64
    assert check(cfg, ("train",)) == ([], [])
    assert caplog.text == ""


class Payload:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("was_run"),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Payload(), r"model\.pth is refused: it names pathlib\S+, and loading it could run code"),
        (torch.zeros(2), r"model\.pth must hold tensors by name, got a Tensor"),
        (None, r"model\.pth is damaged: it ends too early"),
    ],
    ids=["pickle", "tensor", "empty"],
)
def test_a_file_without_weights_is_refused(tmp_path, monkeypatch, content, message):
    """In words that do not recommend to switch the safety off, as PyTorch's own do."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.pth"
    torch.save(content, path)
    if content is None:
        path.write_bytes(b"")
    found = error(config(tmp_path, load_from=str(path)))
    assert re.search(message, found)
    assert "weights_only" not in found and not Path("was_run").exists()


FRAMES = {
    "columns": ("a 3 0\na x 1\n", r"line 2: must be .*3 columns \(FOLDER FRAMES LABEL\)"),
    "no_label": ("a 3\n", r"got -1 \(a line without label\); 1 of 1"),
    "no_frames": ("a 3 0\nb 0 1\n", "line 2: 1 of 2 files are missing or have no frames"),
    "label": ("a 3 0\nb 3 2\n", "line 2: label must be in 0 to 1"),
    "missing": ("a 3 0\nz 3 1\n", "line 2: 1 of 2 files are missing .*, the first is .*z;"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_lists_of_frames(tmp_path, name):
    lines, message = FRAMES[name]
    for folder in "ab":
        (tmp_path / folder).mkdir()
    cfg = config(tmp_path, lines)
    cfg.train_dataloader.dataset.type = "RawframeDataset"
    cfg.train_dataloader.dataset.data_prefix = dict(img=str(tmp_path))
    assert re.search(message, error(cfg))


HEADER = "narration_id,participant_id,video_id,start_frame,stop_frame,noun_class,verb_class\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            HEADER + "n,P01,v,1,9,3,0\n",
            r"line 2: label must be in 0 to 2 \(task 0 of model.cls_head",
        ),
        (
            HEADER + '\nm,P01,v,1,9,0,0\n"two\nlines",P01,v,1,9,0,2\n',
            r"list\.txt, line 5: label must be in 0 to 1 \(task 1 of .* is 2\), got 2; 1 of 2",
        ),
        (HEADER + "n,P01,v,1,9,900,0\n", r"list\.txt, line 2: noun_class 900 is not in 0 to 299"),
        ("a,b\n1,2\n", r"list\.txt has no column narration_id"),
        (
            HEADER + "n,P01,v,1,9,2,0\nm,P01,w,1,9,2,0\n",
            r"list\.txt, line 3: 1 of 2 files are missing .*, the first is .*w\.MP4",
        ),
    ],
    ids=["head", "later", "label", "columns", "missing"],
)
def test_epic_kitchens(tmp_path, text, message):
    assert re.search(message, error(kitchen(tmp_path, text)))


def test_a_segment_twice_is_a_warning(tmp_path):
    lines = "n,P01,v,1,9,2,0\nm,P01,v,1,9,2,0\nn,P01,v,5,9,2,1\n"
    message = warning(kitchen(tmp_path, HEADER + lines))
    assert re.search(r"list\.txt, line 4: n is also in .*list\.txt, line 2, with another", message)


def kitchen(root: Path, text: str) -> Config:
    """A config of EPIC-Kitchens with three nouns and two verbs."""
    cfg = config(root, text)
    cfg.train_dataloader.dataset.type = "mmvidformer.EpicKitchensDataset"
    tasks = dict(noun=3, verb=2)
    cfg.model.cls_head = dict(type="mmvidformer.MultiTaskHead", tasks=tasks, in_channels=16)
    (root / "P01" / "videos").mkdir(parents=True)
    (root / "P01" / "videos" / "v.MP4").write_bytes(b"x")
    return cfg


ACTIONS = "id,verb,noun\n0,0,1\n1,1,0\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7,v,30,60,0,1,0\n8,v,90,99,1,0,1\n", r"line 2: label must be in 0 to 0 \(task 2 of"),
        ("7,v,30,60,0,1,0\n8,v,90,99,0,1\n", r"line 2: action is None, not a whole number"),
        ("7,v,30,60,0,1,0\n8,w,90,99,0,1,0\n", r"line 2: 1 of 2 files are missing.*w\.mp4"),
    ],
    ids=["head", "columns", "missing"],
)
def test_anticipation(tmp_path, text, message):
    cfg = config(tmp_path, text)
    (tmp_path / "actions.csv").write_text(ACTIONS)
    (tmp_path / "v.mp4").write_bytes(b"x")
    cfg.train_dataloader.dataset = dict(
        type="mmvidformer.AnticipationDataset",
        ann_file=str(tmp_path / "list.txt"),
        action_file=str(tmp_path / "actions.csv"),
        data_prefix=dict(video=str(tmp_path)),
        name="{video_id}.mp4",
        pipeline=[dict(type="mmvidformer.ObserveBefore", num_steps=4)],
    )
    tasks = dict(verb=2, noun=2, action=1)
    cfg.pop("model")  # which needs a recurrent neck
    cfg.model = dict(cls_head=dict(tasks=tasks))
    errors = [text for text in check(cfg)[0] if "list.txt" in text]
    assert len(errors) == 1 and re.search(r"list\.txt, " + message, errors[0])


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("7\n0\n5\n", r"list\.txt, entry 3: label must be in 0 to 1 .*, got 2"),
        ("7\n9\n", r"list\.txt has no videos of the classes \[9\] of .*classes\.txt"),
        ("7\n7\n", r"classes\.txt lists the class '7' twice"),
        ("run\n", r"classes\.txt: 'run' is no number and no name in metainfo"),
        (None, r"classes\.txt: No such file"),
        ("0\n5\n", None),
        ("6\n", r"entry 1: 1 of 1 files are missing"),
    ],
    ids=["too_many", "absent", "twice", "name", "no_file", "fits", "missing"],
)
def test_a_subset_is_checked_under_its_new_labels(tmp_path, classes, message):
    """Videos of other classes may be missing, and may have labels that the head does not have."""
    cfg = config(tmp_path, "a.mp4 7\nb.mp4 0\nx.mp4 6\nd.mp4 5\n")
    cfg.train_dataloader.dataset.type = "mmvidformer.ClassSubsetDataset"
    cfg.train_dataloader.dataset.class_file = str(tmp_path / "classes.txt")
    if classes is not None:
        (tmp_path / "classes.txt").write_text(classes)
    if message is None:
        assert check(cfg) == ([], [])
    else:
        assert re.search(message, error(cfg))


def test_each_task_of_the_head_needs_a_label(tmp_path):
    cfg = config(tmp_path)
    tasks = dict(noun=2, verb=2)
    cfg.model.cls_head = dict(type="mmvidformer.MultiTaskHead", tasks=tasks, in_channels=16)
    assert re.search(r"line 1: a sample must have one label per task .*\(2\), got 1", error(cfg))


def test_a_sample_with_several_labels_needs_a_head_for_them(tmp_path):
    cfg = config(tmp_path, "a.mp4 0 1\nb.mp4 1\n")
    cfg.train_dataloader.dataset.update(multi_class=True, num_classes=2)
    assert check(cfg) == ([], [])
    other = kitchen(tmp_path, HEADER + "n,P01,v,1,9,1,1\n")
    other.model.cls_head = MODEL["cls_head"]
    assert "line 2: a sample must have one label per task of model.cls_head (1), got 2" in error(
        other
    )


def test_files_elsewhere_are_not_looked_up(tmp_path):
    cfg = config(tmp_path, "x.mp4 0\n")
    cfg.train_dataloader.dataset.pipeline[0].io_backend = "petrel"
    assert "1 of 1 files are missing" in error(config(tmp_path, "x.mp4 0\n"))
    assert check(cfg) == ([], [])


def test_wrapped_datasets_are_checked(tmp_path):
    cfg = config(tmp_path, "a.mp4 9\n")
    inner = cfg.train_dataloader.dataset
    cfg.train_dataloader.dataset = dict(type="RepeatDataset", times=2, dataset=inner)
    assert "label must be in 0 to 1" in error(cfg)


def test_all_errors_are_listed_with_a_hint(tmp_path):
    cfg = config(tmp_path, "a.mp4 9\nx.mp4 0\n")
    with pytest.raises(WrongSetup) as caught:
        check_run(cfg, ("train",), "--no-preflight skips the checks")
    lines = str(caught.value).splitlines()
    assert lines[0] == "2 problems found before the start"
    assert [line[:2] for line in lines[1:3]] == ["- ", "- "]
    assert lines[3] == "--no-preflight skips the checks"


def test_a_large_list_needs_little_memory(tmp_path):
    """A fifth of what 100,000 videos may need, 100 MB."""
    lines = []
    for number in range(20_000):
        folder = f"class_{number % 100:03}"
        if number < 100:
            (tmp_path / folder).mkdir()
        name = f"{folder}/video_{number:08}_000010_000020.mp4"
        (tmp_path / name).touch()
        lines.append(f"{name} {number % 2}\n")
    cfg = config(tmp_path, "".join(lines))
    assert check(cfg) == ([], [])  # and imports
    tracemalloc.start()
    check(cfg)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def runner(cfg: Config, training: bool = True, resume: bool = False) -> SimpleNamespace:
    """What the hook needs of a runner."""
    loop = (
        EpochBasedTrainLoop.__new__(EpochBasedTrainLoop)
        if training
        else dict(type="EpochBasedTrainLoop")
    )
    return SimpleNamespace(
        cfg=cfg, _train_loop=loop, _resume=resume, _load_from="a.pth", logger=logging.getLogger("x")
    )


def test_the_hook_checks_the_data_of_each_loop(tmp_path, caplog):
    cfg = config(tmp_path, "a.mp4 0\na.mp4 0\n")
    other = tmp_path / "test"
    other.mkdir()
    cfg.test_dataloader = config(other, "a.mp4 9\n").train_dataloader
    PreflightHook().before_train(runner(cfg))
    assert "line 2: " in caplog.text and "with the same label" in caplog.text
    with pytest.raises(WrongSetup, match="got 9.*\n.*default_hooks.preflight=None"):
        PreflightHook().before_test(runner(cfg))
    hook = PreflightHook()
    hook.data = False
    hook.before_test(runner(cfg))
    cfg.test_dataloader = cfg.train_dataloader
    cfg.load_from = "weights to start training from, which is over"
    PreflightHook().before_test(runner(cfg))


def test_the_hook_compares_loaded_weights(tmp_path, weights, caplog):
    cfg, hook = config(tmp_path), PreflightHook()
    loaded = {"state_dict": dict(weights)}
    hook.after_load_checkpoint(runner(cfg), loaded)
    assert caplog.text.count("\n") == 1
    assert "a.pth: 2 of another shape (cls_head.fc_cls.weight (5, 16)" in caplog.text
    assert loaded["state_dict"].keys() == {k for k in weights if not k.startswith("cls_head.")}
    for kind in (dict(training=False), dict(resume=True)):
        with pytest.raises(WrongWeights, match="a.pth does not fit .* 2 of another shape"):
            hook.after_load_checkpoint(runner(cfg, **kind), {"state_dict": dict(weights)})
    with pytest.raises(WrongWeights, match="a.pth does not fit"):
        hook.after_load_checkpoint(runner(cfg), {"state_dict": {"a": torch.zeros(1)}})
    hook.weights = False
    hook.after_load_checkpoint(runner(cfg, training=False), loaded)


def test_the_hook_lets_features_do_without_the_head(tmp_path, weights):
    cfg = config(tmp_path)
    cfg.model.cls_head = dict(type="FeatureHead")
    PreflightHook().after_load_checkpoint(runner(cfg, training=False), {"state_dict": weights})


def test_checks_and_tools_are_light_to_import(run):
    code = """if True:
        import sys
        import mmvidformer.engine.launch
        import mmvidformer.engine.preflight
        heavy = ["mmengine.runner", "mmaction.models", "mmaction.datasets", "transformers", "timm"]
        heavy += ["torch.distributed.fsdp", "torchvision", "sklearn", "matplotlib", "decord"]
        print("loaded:", [name for name in heavy if name in sys.modules])
    """
    assert "loaded: []" in run(sys.executable, "-c", code).communicate(timeout=120)[0]
