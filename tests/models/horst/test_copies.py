"""Whole models are deep-copied, pickled and saved, and the copies compute the same."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from mmengine.registry import DefaultScope
from torch import nn

from mmvidformer.models.horst.statt import ATTENTIONS
from mmvidformer.registry import MODELS

EARLY = {"type": "mmvidformer.LastStepHead", "num_classes": 3, "in_channels": 4}
NEXT = {
    "type": "mmvidformer.AnticipationHead",
    "tasks": {"action": 6, "noun": 4, "verb": 3},
    "in_channels": 4,
}
HORST = {"type": "mmvidformer.Horst", "in_channels": 4, "channels": [4]}
PARTS: dict[str, tuple[dict, dict]] = {
    **{name: ({**HORST, "attention": name}, EARLY) for name in ATTENTIONS},
    "paper": ({**HORST, "variant": "paper"}, {**NEXT, "form": "paper"}),
    "unrolling": (HORST, {**NEXT, "classifier": "unrolling"}),
    "running mean": ({**HORST, "type": "benchmarks.running_mean.RunningMean"}, NEXT),
}


def saved(model: nn.Module) -> nn.Module:
    torch.save(model, file := io.BytesIO())
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), saved]


@pytest.mark.parametrize("duplicate", COPIES, ids=["deep copy", "pickle", "file"])
@pytest.mark.parametrize("name", PARTS)
def test_copies_of_a_whole_model(name: str, duplicate: Callable[[nn.Module], nn.Module]) -> None:
    neck, head = PARTS[name]
    backbone = {"type": "mmvidformer.ConvStem", "channels": 4}
    cfg = {"type": "mmvidformer.RecurrentRecognizer", "backbone": backbone}
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build({**cfg, "neck": neck, "cls_head": head}).eval()
    other = duplicate(model)
    frames = torch.randn(2, 3, 3, 16, 16)
    with torch.no_grad():
        expected, found = (one(frames, mode="tensor", stage="head") for one in (model, other))
        assert len(expected) > 1
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        for parameter in other.parameters():
            parameter.zero_()
        torch.testing.assert_close(model(frames, mode="tensor", stage="head"), expected)
