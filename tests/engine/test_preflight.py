"""Wrong annotations, configs and checkpoints: each is told before the first step."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from safetensors.torch import save_file

from mmvidformer.engine.preflight import PreflightHook, WrongSetup, check, refuse

NAMES = [f"{letter}.mp4" for letter in "abcd"]


def config(root: Path, lines: str | None = None, **changes: object) -> Config:
    """A config of four videos, two classes and clips of 4 x 32 x 32."""
    for name in NAMES:
        (root / name).write_bytes(b"x")
    default = "".join(f"{name} {i % 2}\n" for i, name in enumerate(NAMES))
    (root / "list.txt").write_text(default if lines is None else lines)
    cfg = Config(
        dict(
            default_scope="mmaction",
            model=dict(
                backbone=dict(
                    type="mmvidformer.ViViT", img_size=32, clip_len=4, tubelet=(2, 16, 16)
                ),
                cls_head=dict(type="TimeSformerHead", num_classes=2, in_channels=16),
            ),
            train_dataloader=dict(
                dataset=dict(
                    type="VideoDataset",
                    ann_file=str(root / "list.txt"),
                    data_prefix=dict(video=str(root)),
                    pipeline=[
                        dict(type="DecordInit"),
                        dict(type="SampleFrames", clip_len=4),
                        dict(type="CenterCrop", crop_size=32),
                    ],
                )
            ),
        )
    )
    cfg.merge_from_dict(changes)
    return cfg


def test_nothing_is_wrong(tmp_path):
    assert check(config(tmp_path)) == []


DATASET = "train_dataloader.dataset"
LINES = {
    "no_label": ("a.mp4 0\nb.mp4\n", "line 2: 1 columns in 'b.mp4', expected 'PATH LABEL'"),
    "blank_in_name": ("a b.mp4 0\n", r"line 1: 3 columns .* delimiter=','"),
    "word": ("a.mp4 zero\n", r"line 1: 'zero' is no number.*numbers from 0 on"),
    "two_signs": ("a.mp4 --1\n", "line 1: '--1' is no number"),
    "power": ("a.mp4 \u00b2\n", "line 1: '\u00b2' is no number"),
    "old_mac": ("a.mp4 0\rb.mp4 1\r", "line 1: 3 columns in"),
    "mark": ("\ufeffa.mp4 0\n", "line 1: begins with a byte order mark.*Save it as UTF-8 without"),
    "empty_line": ("a.mp4 0\n\nb.mp4 1\n", "line 2: the line is empty. Remove it"),
    "empty_file": ("", r"list\.txt: has no entry"),
    "too_high": (
        "a.mp4 0\nb.mp4 2\nc.mp4 7\n",
        r"line 2: label 2 is not in 0 to 1 \(model.cls_head.num_classes is 2\); 2 of 3 labels. "
        "The data need a head of 8 classes or more",
    ),
    "from_one": ("a.mp4 1\nb.mp4 2\n", "line 2: label 2 .* seem to count from 1; subtract 1"),
    "negative": ("a.mp4 0\nb.mp4 -1\n", "line 2: label -1 is not in 0 to 1"),
    "twice": ("a.mp4 0\nb.mp4 1\na.mp4 0\n", r"line 3: a\.mp4 stands in line 1 already. Remove"),
    "contradiction": ("a.mp4 0\na.mp4 1\n", r"line 2: a\.mp4 has label 1, in line 1 it has 0"),
    "missing": (
        "a.mp4 0\nx.mp4 0\ny.mp4 1\n",
        r"line 2: 2 of 3 files are missing, the first is .*x\.mp4 \(data_prefix.*check_videos",
    ),
    "extension": ("a.avi 0\n", r"1 of 1 files are missing.*a\.mp4 exists.*another extension"),
    "dots": (
        "a.mp4 0\n../a.mp4 0\n",
        r"line 2: .*\.\./a\.mp4 is outside .*, the data_prefix; 1 of 2 entries\. Take out '\.\.'",
    ),
    "absolute": ("/a.mp4 0\n", r"line 1: /a\.mp4 is outside .*, the data_prefix\. Take out"),
    "folder": ("train/a.mp4 0\n", r"a\.mp4 exists: the annotations have folders that the data"),
}


@pytest.mark.parametrize("name", LINES)
def test_a_wrong_line_is_told_with_its_number_and_a_remedy(tmp_path, name):
    lines, told = LINES[name]
    with pytest.raises(WrongSetup, match=told):
        refuse(config(tmp_path, lines))


def test_text_of_another_encoding_is_told(tmp_path):
    cfg = config(tmp_path)
    (tmp_path / "list.txt").write_bytes(b"a.mp4 0\n\xe9.mp4 0\n")
    with pytest.raises(WrongSetup, match=r"list\.txt, line 2: byte 0xe9 is no UTF-8 text"):
        refuse(cfg)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (f"{DATASET}.ann_file", "is a folder, not an annotation file"),
        ("load_from", "is a folder, and no whole checkpoint in shards"),
    ],
)
def test_a_folder_in_place_of_a_file_is_told(tmp_path, setting, told):
    with pytest.raises(WrongSetup, match=told):
        refuse(config(tmp_path, **{setting: str(tmp_path)}))


def test_several_wrong_lines_are_counted(tmp_path):
    problems = check(config(tmp_path, "a.mp4 x\nb.mp4\nc.mp4 1 2\nd.mp4 1\n"))
    assert len(problems) == 1 and "line 1" in str(problems[0])
    assert "3 such lines" in str(problems[0])


def test_a_wrong_prefix_is_told_with_the_right_one(tmp_path):
    cfg = config(tmp_path, **{f"{DATASET}.data_prefix.video": str(tmp_path / "videos")})
    told = r"line 1: 4 of 4 files are missing, the first is .*videos/a\.mp4 .*exists with"
    with pytest.raises(WrongSetup, match=f"{told} data_prefix '{tmp_path}'"):
        refuse(cfg)


@pytest.mark.parametrize(("share", "found"), [(0.5, 0), (0.2, 1)])
def test_missing_files_are_the_policys_affair_up_to_its_share(tmp_path, share, found):
    hook = dict(type="mmvidformer.BadVideoHook", max_bad_share=share)
    policy = {"default_hooks": dict(bad_videos=hook)}
    assert len(check(config(tmp_path, "a.mp4 0\nx.mp4 0\n", **policy))) == found


SETTINGS = {
    "no_file": (
        {f"{DATASET}.ann_file": "gone/list.txt"},
        r"ann_file gone/list\.txt: there is no such annotation file",
    ),
    "prefix": (
        {f"{DATASET}.data_prefix": "videos"},
        r"data_prefix of VideoDataset: is 'videos', a str\. Write data_prefix=dict\(video=FOLDER\)",
    ),
    "type": (
        {f"{DATASET}.type": "VideoDatset"},
        r"VideoDatset is not in the mmaction::dataset registry\. Mend the type, or name the module",
    ),
    "argument": (
        {f"{DATASET}.type": "mmvidformer.EpicKitchensDataset", f"{DATASET}.lables": 3},
        r"unexpected keyword argument 'lables'\. EpicKitchensDataset does not take it",
    ),
    "no_dataset": (
        {"val_dataloader": dict(batch_size=1)},
        r"val_dataloader: has no dataset\. Give val_dataloader\.dataset, or set the loader to None",
    ),
    "no_frames": ({f"{DATASET}.pipeline.1.clip_len": 0}, r"clips have 0 frames\. .* above 0"),
    "text_frames": ({f"{DATASET}.pipeline.1.clip_len": "4"}, r"clips have '4' frames\."),
    "one_side": (
        {f"{DATASET}.pipeline.2.crop_size": [32]},
        r"clips are 32 pixels\. .*one .*or two",
    ),
    "clip_len": (
        {f"{DATASET}.pipeline.1.clip_len": 8},
        r"train_dataloader.*clips have 8 frames, model\.backbone\.clip_len is 4\. Give clip_len=4",
    ),
    "tubelet": (
        {f"{DATASET}.pipeline.1.clip_len": 5},
        r"5 frames, which tubelets of 2 frames .* do not divide.*multiple of 2",
    ),
    "patch": (
        {f"{DATASET}.pipeline.2.crop_size": 40},
        r"40 x 40 pixels, which patches of 16 x 16 do not divide\. Crop to a multiple of 16",
    ),
    "crop": (
        {f"{DATASET}.pipeline.2.crop_size": 48},
        r"48 x 48 pixels, model\.backbone\.img_size is 32 x 32\. Crop to 32",
    ),
    "gone_checkpoint": ({"load_from": "gone.pth"}, r"load_from: there is no file gone\.pth"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_setting_is_told(tmp_path, name):
    changes, told = SETTINGS[name]
    with pytest.raises(WrongSetup, match=told):
        refuse(config(tmp_path, **changes))


@pytest.mark.parametrize("form", ["pth", "safetensors"])
def test_classes_of_a_checkpoint_are_compared(tmp_path, form):
    path = tmp_path / f"model.{form}"

    def save(classes):
        state = {"cls_head.fc_cls.weight": torch.zeros(classes, 16)}
        if form == "pth":
            torch.save({"state_dict": state, "meta": {}}, path)
        else:
            save_file(state, path)
        return config(tmp_path, load_from=str(path))

    assert check(save(2)) == []
    with pytest.raises(WrongSetup, match=r"has 400 classes .*the head has 2\..*init_from=FILE"):
        refuse(save(400))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(WrongSetup, match=r"can't be read"):
        refuse(config(tmp_path, load_from=str(path)))


class Payload:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("was_run"),)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (Payload(), r"model\.pth is refused: it names pathlib\S+, and loading it could run code"),
        (torch.zeros(2), r"model\.pth can't be read: it holds a Tensor, not the weights by their"),
        (None, r"model\.pth can't be read: it is empty \(0 bytes\)"),
    ],
    ids=["pickle", "tensor", "empty"],
)
def test_a_file_without_weights_is_refused(tmp_path, monkeypatch, content, told):
    """In words that don't recommend to switch the safety off, as PyTorch's own do."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.pth"
    torch.save(content, path)
    if content is None:
        path.write_bytes(b"")
    with pytest.raises(WrongSetup, match=told) as caught:
        refuse(config(tmp_path, load_from=str(path)))
    assert "weights_only" not in str(caught.value) and not Path("was_run").exists()


FRAMES = {
    "columns": ("a 3\n", "line 1: 2 columns .*'FOLDER FRAMES LABEL'"),
    "no_frames": ("a 3 0\nb 0 1\n", "line 2: 0 frames"),
    "label": ("a 3 0\nb 3 2\n", "line 2: label 2 is not in 0 to 1"),
    "missing": ("a 3 0\nz 3 1\n", "line 2: 1 of 2 files are missing, the first is .*z "),
    "twice": ("a 3 0\na 3 0\n", "line 2: a stands in line 1 already"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_lists_of_frames(tmp_path, name):
    lines, told = FRAMES[name]
    for folder in "ab":
        (tmp_path / folder).mkdir()
    cfg = config(tmp_path, lines)
    cfg.train_dataloader.dataset.type = "RawframeDataset"
    cfg.train_dataloader.dataset.data_prefix = dict(img=str(tmp_path))
    with pytest.raises(WrongSetup, match=told):
        refuse(cfg)


HEADER = "narration_id,participant_id,video_id,start_frame,stop_frame,noun_class,verb_class\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEADER + "n,P01,v,1,9,3,0\n", r"line 2: label 3 is not in 0 to 2 \(task 0 of the head"),
        (
            HEADER + '\nm,P01,v,1,9,0,0\n"two\nlines",P01,v,1,9,0,2\n',
            r"list\.txt, line 5: label 2 is not in 0 to 1 \(task 1 of the head is 2\); 1 of 2",
        ),
        (HEADER + "n,P01,v,1,9,900,0\n", r"list\.txt, line 2: noun_class 900 is not in 0 to 299"),
        ("a,b\n1,2\n", r"list\.txt has no column narration_id"),
        (
            HEADER + "n,P01,v,1,9,2,0\nm,P01,w,1,9,2,0\n",
            r"list\.txt, line 3: 1 of 2 files are missing, the first is .*w\.MP4",
        ),
        (
            HEADER + "n,P01,v,1,9,2,0\nm,P01,v,1,9,2,0\nn,P01,v,5,9,2,1\n",
            r"list\.txt, line 4: narration_id n stands in line 2 already\. Remove",
        ),
    ],
    ids=["head", "later", "label", "columns", "missing", "twice"],
)
def test_epic_kitchens(tmp_path, text, told):
    cfg = config(tmp_path, text)
    cfg.train_dataloader.dataset.type = "mmvidformer.EpicKitchensDataset"
    cfg.model.cls_head = dict(type="mmvidformer.MultiTaskHead", tasks=dict(noun=3, verb=2))
    (tmp_path / "P01" / "videos").mkdir(parents=True)
    (tmp_path / "P01" / "videos" / "v.MP4").write_bytes(b"x")
    with pytest.raises(WrongSetup, match=told):
        refuse(cfg)


ACTIONS = "id,verb,noun\n0,0,1\n1,1,0\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("7,v,30,60,0,1,0\n8,v,90,99,1,0,1\n", r"line 2: label 1 is not in 0 to 0 \(task 2 of"),
        ("7,v,30,60,0,1,0\n8,v,90,99,0,1\n", r"line 2: 6 fields in .* expected narration_id"),
        ("7,v,30,60,0,1,0\n8,w,90,99,0,1,0\n", r"line 2: 1 of 2 files are missing.*w\.mp4"),
        ("7,v,30,60,0,1,0\n7,v,90,99,0,1,0\n", r"line 2: narration_id 7 stands in line 1"),
    ],
    ids=["head", "columns", "missing", "twice"],
)
def test_anticipation(tmp_path, text, told):
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
    cfg.model.cls_head = dict(type="mmvidformer.AnticipationHead", tasks=tasks)
    with pytest.raises(WrongSetup, match=r"list\.txt, " + told):
        refuse(cfg)


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        ("7\n0\n5\n", r"line 4, class 5 numbered anew by .*classes\.txt: label 2 is not in 0 to 1"),
        ("7\n9\n", r"list\.txt has no videos of the classes \[9\] of .*classes\.txt"),
        ("7\n7\n", r"classes\.txt, line 2: class '7' is listed twice"),
        ("run\n", r"classes\.txt, line 1: 'run' is not a number; for names give label_map"),
        (None, r"No such file .*classes\.txt"),
        ("0\n5\n", None),
        ("6\n", r"line 3, class 6 .*: 1 of 1 files are missing"),
    ],
    ids=["too_many", "absent", "twice", "name", "no_file", "fits", "missing"],
)
def test_a_subset_is_checked_under_its_new_labels(tmp_path, classes, told):
    """Videos of classes that are left out may be missing, and have labels beyond the head's."""
    cfg = config(tmp_path, "a.mp4 7\nb.mp4 0\nx.mp4 6\nd.mp4 5\n")
    cfg.train_dataloader.dataset.type = "mmvidformer.ClassSubsetDataset"
    cfg.train_dataloader.dataset.class_file = str(tmp_path / "classes.txt")
    if classes is not None:
        (tmp_path / "classes.txt").write_text(classes)
    if told is None:
        assert check(cfg) == []
        return
    with pytest.raises(WrongSetup, match=told):
        refuse(cfg)


def test_each_task_of_the_head_needs_a_label(tmp_path):
    cfg = config(tmp_path)
    cfg.model.cls_head = dict(type="mmvidformer.MultiTaskHead", tasks=dict(noun=2, verb=2))
    with pytest.raises(WrongSetup, match=r"line 1: labels of a sample: 1, tasks of model.cls_.*2"):
        refuse(cfg)


def test_a_kind_that_is_meant_can_be_passed_over(tmp_path):
    lines = "a.mp4 0\na.mp4 0\n"
    for skip in (["duplicates"], "duplicates"):
        assert check(config(tmp_path, lines, preflight=dict(skip=skip))) == []
    with pytest.raises(ValueError, match="no kind all; there are columns"):
        check(config(tmp_path, lines, preflight=dict(skip=["all"])))


def test_wrapped_data_sets_are_looked_into(tmp_path):
    cfg = config(tmp_path, "a.mp4 9\n")
    inner = cfg.train_dataloader.dataset
    cfg.train_dataloader.dataset = dict(type="RepeatDataset", times=2, dataset=inner)
    assert [problem.kind for problem in check(cfg)] == ["labels"]


def test_the_hook_refuses_a_run(tmp_path):
    class Runner:
        cfg = config(tmp_path, "a.mp4 9\n")

    with pytest.raises(WrongSetup, match="label 9"):
        PreflightHook().before_run(Runner)
