"""Wrong overrides and arguments of a model."""

from argparse import ArgumentParser

import pytest

from mmvidformer.engine.model_options import CheckpointOptions, ConfigOptions
from mmvidformer.engine.options import add_options


def test_arguments_of_a_model():
    parser = ArgumentParser()
    add_options(parser, CheckpointOptions)
    args = parser.parse_args(["a.py", "b.pth", "--cfg-options", "x.y=[1,2]", "z=a=b"])
    assert (args.config, args.checkpoint, args.device) == ("a.py", "b.pth", None)
    assert args.cfg_options == {"x.y": [1, 2], "z": "a=b"}


@pytest.mark.parametrize("wrong", ["x", "x=[1", "x=[(1,2]", "x=dict(a=1,b=2)", "x=[dict(a=1,b=2)]"])
def test_wrong_overrides_are_named(wrong, capsys):
    parser = ArgumentParser()
    add_options(parser, ConfigOptions)
    with pytest.raises(SystemExit) as end:
        parser.parse_args(["a.py", "--cfg-options", wrong])
    assert end.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"must be DOTTED.KEY=VALUE with closed brackets, got {wrong!r}" in said


def test_spaces_in_overrides_are_not_lost(capsys):
    parser = ArgumentParser()
    add_options(parser, ConfigOptions)
    assert parser.parse_args(["a.py", "--cfg-options", "x=[1, 2]"]).cfg_options == {"x": [1, 2]}
    with pytest.raises(SystemExit):
        parser.parse_args(["a.py", "--cfg-options", "model.init_from=my runs/a.pth"])
    said = " ".join(capsys.readouterr().err.split())
    assert "MMEngine removes spaces from values, got 'model.init_from=my runs/a.pth'" in said
