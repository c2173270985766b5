"""What stands in for mmcv's compiled operators, which mmcv-lite has not."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch
import torchvision
from torch import Tensor


class Operators(ModuleType):
    """The operators that the tests need, from torchvision; all others fail when called."""

    def __getattr__(self, name: str) -> Callable:
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*args, **kwargs) -> None:
            raise NotImplementedError(f"mmcv's operator {name} is not compiled")

        return missing

    @staticmethod
    def nms(bboxes: Tensor, scores: Tensor, iou_threshold: float, offset: int) -> Tensor:
        assert offset == 0
        return torchvision.ops.nms(bboxes, scores, iou_threshold)

    @staticmethod
    def roi_align_forward(x: Tensor, rois: Tensor, output: Tensor, *_: Tensor, **how) -> None:
        assert how["pool_mode"] == 1  # the mean
        size = how["aligned_height"], how["aligned_width"]
        options = how["spatial_scale"], how["sampling_ratio"], how["aligned"]
        output.copy_(torchvision.ops.roi_align(x, rois, size, *options))

    @staticmethod
    def roi_align_backward(gradient: Tensor, rois: Tensor, *rest: Tensor, **how) -> None:
        found = rest[-1]
        size = how["aligned_height"], how["aligned_width"]
        options = how["sampling_ratio"], how["aligned"]
        back = torch.ops.torchvision._roi_align_backward
        found.copy_(back(gradient, rois, how["spatial_scale"], *size, *found.shape, *options))


def provide_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide what MMDetection imports from mmcv, if it is not compiled."""
    if importlib.util.find_spec("mmcv._ext") is None:
        module = Operators("mmcv._ext")
        module.__spec__ = ModuleSpec("mmcv._ext", None)  # MMEngine looks for it
        monkeypatch.setitem(sys.modules, "mmcv._ext", module)
        # Importing mmcv before could not add this class here.
        layer = importlib.import_module("mmcv.ops").MultiScaleDeformableAttention
        transformer = importlib.import_module("mmcv.cnn.bricks.transformer")
        monkeypatch.setattr(transformer, layer.__name__, layer, raising=False)
