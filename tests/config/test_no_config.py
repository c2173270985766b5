"""What is no config is named before anything is looked up."""

from pathlib import Path

import pytest

from mmvidformer.config import load_config
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
