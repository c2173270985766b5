"""Loaded weights are compared with the model before the first step."""

import re

import pytest
import torch
from mmengine.runner import Runner

from mmvidformer.engine.checkpointing.settings import CannotContinue
from mmvidformer.engine.loading import WrongWeights
from mmvidformer.engine.preflight.hook import PreflightHook


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
    loaded |= dict(optimizer={}, meta=dict(epoch=1, iter=3))
    PreflightHook().after_load_checkpoint(made, dict(loaded))
    del loaded["message_hub"]
    with pytest.raises(CannotContinue, match="a.pth cannot be resumed: it has no number of steps"):
        PreflightHook().after_load_checkpoint(made, loaded)


@pytest.mark.parametrize("form", ["model_state_dict", "Lightning"])
def test_weights_of_training_loops_start_a_run(runner, form: str) -> None:
    """MMEngine loads what is under ``state_dict`` by its names."""
    made, loaded = runner("_train_loop")
    state = loaded["state_dict"]
    wrapped = {
        "model_state_dict": {"model_state_dict": state, "epoch": 1},
        "Lightning": {"state_dict": {f"model.{name}": x for name, x in state.items()}},
    }[form]
    PreflightHook().after_load_checkpoint(made, wrapped)
    assert wrapped["state_dict"].keys() == {x for x in state if not x.startswith("cls_head.")}
