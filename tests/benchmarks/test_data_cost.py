"""Cost of a sample, and the same recipe in MMAction2's classes."""

import pytest
from mmcv.transforms import BaseTransform

from benchmarks.data_cost import Part, loading_rate, nominal_rate, suggest_workers
from benchmarks.mmaction_pipeline import use_mmaction_classes
from mmvidformer import get_config
from mmvidformer.apis.complexity import count
from mmvidformer.config import type_name
from mmvidformer.config.building import building
from mmvidformer.data.transforms.base import Transform
from mmvidformer.registry import TRANSFORMS


@pytest.mark.parametrize(
    "model, workers, cores, loader, suggested",
    [
        (10.0, 2, 8, 10.0, 3),  # 2 are just enough, one more is the reserve
        (10.0, 1, 8, 5.0, 3),
        (10.0, 0, 8, 5.0, 3),
        (10.0, 16, 1, 10.0, None),  # half of the time is spent waiting for files
        (10.0, 16, 2, 20.0, 3),
        (0.1, 4, 4, 20.0, 1),
    ],
)
def test_rates_and_suggested_workers(model, workers, cores, loader, suggested) -> None:
    costs = (("1 Decode", "worker", 150.0, 60.0), ("2 Resize", "worker", 50.0, 40.0))
    parts = [Part(*cost) for cost in (*costs, ("x", "main", 9.0, 9.0))]
    assert loading_rate(parts, workers, cores) == pytest.approx(loader)
    assert suggest_workers(parts, model, cores) == suggested


def test_a_gpu_trains_as_many_clips_as_its_operations_allow() -> None:
    """ViViT-B: 284 GMACs per clip, three times in a step, two operations each, 40% of the speed."""
    cfg = get_config("vivit_fe_k400")
    assert nominal_rate(cfg, 400) == pytest.approx(400e12 * 0.4 / (6 * count(cfg).macs))
    assert nominal_rate(cfg, 400) == pytest.approx(94, abs=1)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        (
            "vivit_fe_k400",
            "DecordInit SampleFrames DecordDecode Resize RandomRescale RandomCrop Flip RandomApply "
            "RandomApply FormatShape PackActionInputs",
        ),
        (
            "vivit_l_fe_sthv2",
            "DecordInit SampleFrames DecordDecode Resize RandomRescale RandomCrop Flip "
            "TorchVisionWrapper FormatShape PackActionInputs",
        ),
        (
            "feature_fixation_k400",
            "DecordInit SpanFrames DecordDecode Resize TorchVisionWrapper MultiScaleCrop Resize "
            "Flip FormatShape PackActionInputs",
        ),
        (
            "feature_fixation_sthv2",
            "DecordInit SegmentFrames DecordDecode RandomRescale TorchVisionWrapper RandomCrop "
            "RandomErasing FormatShape PackActionInputs",
        ),
    ],
)
def test_recipes_in_mmaction_s_classes(name: str, steps: str) -> None:
    cfg = get_config(name)
    use_mmaction_classes(cfg)
    pipeline = cfg.train_dataloader.dataset.pipeline
    assert " ".join(map(type_name, pipeline)) == steps
    assert cfg.model.data_preprocessor.type == "ActionDataPreprocessor"
    assert "augment" not in cfg.model.data_preprocessor
    with building(cfg):
        built = [TRANSFORMS.build(step) for step in pipeline]
    assert all(isinstance(step, BaseTransform | Transform) for step in built)
    own = {type(step).__name__ for step in built if "mmvidformer" in type(step).__module__}
    assert own <= {"SpanFrames", "SegmentFrames"}  # samplers cost nothing
