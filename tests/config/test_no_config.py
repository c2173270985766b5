"""What is no config, has no model or no weights, is named before anything is looked up."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvidformer.apis import Recognizer
from mmvidformer.config import load_config
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.errors import UserError


@pytest.mark.parametrize("command", ["train", "test"])
@pytest.mark.parametrize("name", ["hf://google/vivit-b-16x2-kinetics400", "folder"])
def test_weights_are_no_config(name: str, command: str, main_of, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    said = f"{name} is no config; of weights, mmvidformer convert {name} NEW.pth --config-out"
    with pytest.raises(UserError, match=said):
        load_config(name)
    with pytest.raises(UserError, match=said):
        main_of(command)([name])


@pytest.mark.parametrize(
    "command", ["demo {} weights.pth video.mp4", "count {}", "export {} weights.pth --out a.onnx"]
)
def test_a_config_without_a_model_is_named(command, main_of, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.py").write_text("batch_size = 1\n")
    Path("number.py").write_text("model = 3\n")
    Path("weights.pth").touch()
    Path("video.mp4").touch()
    for file in ("data.py", "number.py"):
        name, *words = command.format(file).split()
        with pytest.raises(UserError, match=f"{file} has no model"):
            main_of(name)(words)


def test_weights_of_a_run_that_diverged_are_refused(tmp_path: Path) -> None:
    """Their answers would be NaN without a word."""
    cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
    state = load_recognizer(cfg, None).state_dict()
    name = "cls_head.fc_cls.weight"
    state[name][0, 0] = torch.nan
    torch.save(dict(state_dict=state, meta={}), tmp_path / "a.pth")
    with pytest.raises(UserError, match=f"a.pth has values that are no numbers .*{name}"):
        Recognizer(cfg, str(tmp_path / "a.pth"), "cpu")
