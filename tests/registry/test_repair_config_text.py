"""The repair ``config_text``: a config's text is formatted once, and is what it was."""

import pytest
from mmengine.config import Config, config
from yapf.yapflib.yapf_api import FormatCode

from mmvidformer.repairs import config_text

CONTENT = dict(model=dict(type="A", sizes=[1, 2], names=("x", "y")), epochs=3)


@pytest.fixture
def formatted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that yapf got."""
    texts: list[str] = []

    def format_code(text: str, **options: object) -> tuple[str, bool]:
        texts.append(text)
        return FormatCode(text, **options)

    monkeypatch.setattr(config, "FormatCode", format_code)
    return texts


@pytest.mark.parametrize(("repaired", "calls"), [(False, 3), (True, 1)])
def test_one_text_is_formatted_once(repaired: bool, calls: int, formatted: list[str]) -> None:
    """Without the repair each time; if no longer, remove it."""
    if repaired:
        config_text.repair()
    cfg = Config(CONTENT)
    assert len({cfg.pretty_text for _ in range(3)}) == 1
    assert len(formatted) == calls


def test_each_text_is_that_of_its_config(formatted: list[str], tmp_path) -> None:
    cfg = Config(CONTENT)
    plain = cfg.pretty_text
    config_text.repair()
    assert cfg.pretty_text == plain
    cfg.epochs = 4
    assert cfg.pretty_text == plain.replace("epochs = 3", "epochs = 4")
    cfg.dump(tmp_path / "config.py")
    assert Config.fromfile(tmp_path / "config.py").to_dict() == cfg.to_dict()
    assert len(formatted) == 3


def test_what_is_no_python_is_refused_each_time(formatted: list[str]) -> None:
    config_text.repair()
    cfg = Config({"a b": object()})
    for _ in range(2):
        with pytest.raises(SyntaxError, match="Failed to format the config"):
            _ = cfg.pretty_text
