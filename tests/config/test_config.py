"""Config files of users."""

from functools import cache
from inspect import signature
from pathlib import Path

import pytest
from mmengine.runner import Runner

from mmvidformer.config import frame_size, idle, idle_variables, list_models, load_config
from mmvidformer.config.idle import SETTINGS
from mmvidformer.config.shipped import config_folder
from mmvidformer.errors import UserError


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.py", "model = dict(type='ViViT'\n", "SyntaxError: "),
        ("a.py", "_base_ = 'none.py'\n", "FileNotFoundError: "),
        ("a.json", "{", "JSONDecodeError: "),
    ],
)
def test_a_faulty_file_is_named_in_one_line(
    name: str, text: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=r"a\.\w+ cannot be read: ") as raised:
        load_config(str(path))
    assert reason in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["best.pth", "model.onnx", "no_suffix"])
def test_another_file_in_the_place_of_a_config(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\x80")
    with pytest.raises(UserError, match=rf"{name} is no config \(.py, .json, .yaml, .yml\); a ch"):
        load_config(str(tmp_path / name))


@pytest.mark.parametrize(
    ("steps", "size"),
    [
        ([dict(type="CenterCrop", crop_size=32), dict(type="FormatShape")], (32, 32)),
        ([dict(type="Resize", scale=(64, 32), keep_ratio=False)], (32, 64)),
        ([dict(type="Resize", scale=(-1, 32))], None),
        ([dict(type="FormatShape")], None),
    ],
)
def test_size_of_the_frames_of_a_pipeline(steps: list[dict], size: tuple | None) -> None:
    assert frame_size(steps) == size


BASE = """
data_root = "data"
augment = [dict(type="ClipFlip")]
jitter = dict(hue=0.1)
augment.append(dict(type="ClipColorJitter", **jitter))

def videos(split):
    return dict(dataset=dict(ann_file=f"{data_root}/{split}.txt"))

train_dataloader = videos("train")
val_dataloader = videos("val")
test_dataloader = val_dataloader
work_dir = f"work_dirs/{data_root}"
"""
MODEL = """
_base_ = "base.py"
model = dict(data_preprocessor=dict(augment=_base_.augment))
"""
IDLE = {
    # What a config adds, and the variable without effect with what was built from it.
    'data_root = "/mine"': "data_root has no effect, since test_dataloader, train_dataloader, val_",
    "augment = []": "augment has no effect, since model was built from the old value",
    "augment = [*_base_.augment]": None,  # as it was
    "augment = _base_.augment[:1]": "augment has no effect, since model was built",
    'data_root = "data"': None,
    'data_root = "/mine"\ntrain_dataloader = dict(dataset=dict(ann_file=data_root))': None,
    'data_root = "/mine"\ntrain_dataloader = dict(batch_size=1)': "since test_dataloader, val_data",
    "augment = []\nmodel = dict(data_preprocessor=dict(augment=[]))": None,
    "augment = []\nmodel = dict(data_preprocessor=dict(augment=augment))": None,
    "val_dataloader = dict(batch_size=1)": None,  # a setting, which the test may have as well
    "mine = 1": None,
}


@pytest.mark.parametrize("text", IDLE)
@pytest.mark.parametrize("inherited", [False, True])
def test_variables_that_change_nothing_are_refused(text, inherited, tmp_path, monkeypatch) -> None:
    """In the config itself, or in one that it inherits."""
    monkeypatch.chdir(tmp_path)
    Path("base.py").write_text(BASE)
    Path("model.py").write_text(MODEL)
    Path("mine.py").write_text(f'_base_ = "model.py"\n{text}\n')
    Path("last.py").write_text('_base_ = "mine.py"\nlog_level = "ERROR"\n')
    path = "last.py" if inherited else "mine.py"
    if IDLE[text] is None:
        load_config(path)
    else:
        with pytest.raises(ValueError, match=f"mine.py: .*{IDLE[text]}"):
            load_config(path)


def test_a_variable_that_a_later_config_reads_may_be_changed(tmp_path) -> None:
    (tmp_path / "base.py").write_text(BASE)
    (tmp_path / "other.json").write_text('{"_base_": "base.py", "augment": []}')
    (tmp_path / "model.py").write_text(MODEL.replace("base.py", "other.json"))
    assert load_config(str(tmp_path / "model.py")).model.data_preprocessor.augment == []
    (tmp_path / "other.json").write_text('{"_base_": "base.py", "data_root": "/mine"}')
    with pytest.raises(ValueError, match="other.json: data_root has no effect"):
        load_config(str(tmp_path / "model.py"))


@pytest.mark.parametrize("name", ["vivit_fe_k400", "vivit/table2/model_3"])
def test_overrides_that_change_nothing_are_refused(name) -> None:
    for override in ({"data_root": "/mine"}, {"train_pipeline.0.type": "X"}):
        with pytest.raises(ValueError, match="--cfg-options: .* has no effect, since .*train_data"):
            load_config(name, override)
    assert load_config(name, {"work_dir": "/mine"}).work_dir == "/mine"


@pytest.mark.parametrize("key", ["tset_dataloader.batch_size", "optim_wraper", "modell.x"])
def test_misspelt_overrides_are_refused(key: str) -> None:
    """MMEngine adds what it does not know, without a word."""
    with pytest.raises(ValueError, match=f"the config has no {key.split('.')[0]}; did you mean"):
        load_config("vivit_fe_k400", {key: 1})
    assert load_config("vivit_fe_k400", {"my.own": 1}).my.own == 1


def test_shipped_configs_have_no_variables_that_change_nothing(monkeypatch) -> None:
    for function in ("_bases", "_uses_of"):  # each file is read once, as many have one base
        monkeypatch.setattr(idle, function, cache(getattr(idle, function)))
    for name in list_models():
        assert idle_variables(str(config_folder() / f"{name}.py")) == []


def test_settings_of_a_run_are_those_of_the_runner() -> None:
    assert {*signature(Runner).parameters} == SETTINGS
