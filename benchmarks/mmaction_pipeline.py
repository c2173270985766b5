"""A training pipeline in MMAction2's own classes, for comparison."""

from collections.abc import Callable, Mapping

from mmengine.config import Config

from mmvidformer.config import leaf_datasets, type_name


def _torchvision(op: str, **kwargs: object) -> dict:
    return dict(type="TorchVisionWrapper", op=op, **kwargs)


def _at_times(step: Mapping, default: float, inner: dict) -> list[dict]:
    return [dict(type="RandomApply", prob=step.get("p", default), transforms=[inner])]


def _without(step: Mapping, *keys: str) -> dict:
    return {key: value for key, value in step.items() if key not in ("type", *keys)}


def _scale_jitter(step: Mapping) -> list[dict]:
    short, ratios = step["short_side"], step.get("ratio_range", (0.9, 1.33))
    scales = tuple(int(short * ratio) for ratio in ratios)
    return [
        dict(type="Resize", scale=(-1, short)),
        dict(type="RandomRescale", scale_range=scales),
        dict(type="RandomCrop", size=step["crop_size"]),
    ]


# What takes the place of a step. MMAction2 has RandAugment and AutoAugment through other packages
# only; torchvision's operations are not quite those of the recipes.
SUBSTITUTES: dict[str, Callable[[Mapping], list[dict]]] = {
    "VideoInit": lambda s: [dict(type="DecordInit", num_threads=1)],
    "VideoDecode": lambda s: [dict(type="DecordDecode")],
    "ScaleJitter": _scale_jitter,
    "ClipFlip": lambda s: [dict(type="Flip", flip_ratio=s.get("p", 0.5))],
    "ClipColorJitter": lambda s: _at_times(
        s,
        1.0,
        _torchvision(
            "ColorJitter", **{"brightness": s.get("shift", 0) / 255, **_without(s, "p", "shift")}
        ),
    ),
    "RandomGrayscale": lambda s: _at_times(
        s, 0.1, _torchvision("Grayscale", num_output_channels=3)
    ),
    "ClipRandAugment": lambda s: [
        _torchvision("RandAugment", num_ops=s.get("num_layers", 2), magnitude=s.get("magnitude", 9))
    ],
    "RandAugment": lambda s: [_torchvision("RandAugment", **_without(s))],
    "ClipAutoAugment": lambda s: [_torchvision("AutoAugment")],
    "ClipMultiScaleCrop": lambda s: [
        dict(type="MultiScaleCrop", input_size=s["size"], **_without(s, "size")),
        dict(type="Resize", scale=(s["size"], s["size"]), keep_ratio=False),
    ],
    "RandomCrop": lambda s: [dict(type="RandomCrop", size=s["size"])],
    "ClipErasing": lambda s: [dict(type="RandomErasing", erase_prob=s["p"], mode="rand")],
    "RandomErasing": lambda s: [dict(type="RandomErasing", erase_prob=s.get("p", 0.5))],
}


def use_mmaction_classes(cfg: Config) -> None:
    """Replace the training pipelines and the data preprocessor of a config, in place.

    The augmentation goes before ``FormatShape``. Steps that MMAction2 lacks remain.
    """
    preprocessor = cfg.model.data_preprocessor
    augment = preprocessor.pop("augment", None) or []
    preprocessor.type = "ActionDataPreprocessor"
    for dataset in leaf_datasets(cfg.train_dataloader.dataset):
        end = [type_name(step) for step in dataset.pipeline].index("FormatShape")
        steps = [*dataset.pipeline[:end], *augment, *dataset.pipeline[end:]]
        dataset.pipeline = []
        for step in steps:
            name = type_name(step)
            dataset.pipeline += SUBSTITUTES[name](step) if name in SUBSTITUTES else [step]
