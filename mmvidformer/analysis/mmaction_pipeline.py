"""A training pipeline in MMAction2's own classes, for comparison."""

from collections.abc import Callable, Mapping

from mmengine.config import Config

from mmvidformer.config import leaf_datasets, type_name


def _torchvision(op: str, **kwargs: object) -> dict:
    return dict(type="TorchVisionWrapper", op=op, **kwargs)


def _applied(step: Mapping, op: str, **kwargs: object) -> list[dict]:
    wrapped = _torchvision(op, **kwargs)
    return [dict(type="RandomApply", prob=step.get("p", 1.0), transforms=[wrapped])]


def _kwargs(step: Mapping, *without: str) -> dict:
    return {k: v for k, v in step.items() if k not in ("type", *without)}


def _scale_jitter(step: Mapping) -> list[dict]:
    short = step["short_side"]
    scales = tuple(int(short * ratio) for ratio in step["ratio_range"])
    return [
        dict(type="Resize", scale=(-1, short)),
        dict(type="RandomRescale", scale_range=scales),
    ]


# What takes the place of a step. MMAction2 has no RandAugment and no AutoAugment without further
# packages; torchvision's, through its wrapper, are not the recipes' but cost as much.
SUBSTITUTES: dict[str, Callable[[Mapping], list[dict]]] = {
    "VideoInit": lambda step: [dict(type="DecordInit", num_threads=1)],
    "VideoDecode": lambda step: [dict(type="DecordDecode")],
    "ScaleJitter": _scale_jitter,
    "ClipFlip": lambda step: [dict(type="Flip", flip_ratio=step["p"])],
    "ClipColorJitter": lambda step: _applied(step, "ColorJitter", **_kwargs(step, "p")),
    "RandomGrayscale": lambda step: _applied(step, "Grayscale", num_output_channels=3),
    "ClipRandAugment": lambda step: [
        _torchvision("RandAugment", num_ops=step["num_layers"], magnitude=step["magnitude"])
    ],
    "ClipAutoAugment": lambda step: [_torchvision("AutoAugment")],
    "ClipMultiScaleCrop": lambda step: [
        dict(type="MultiScaleCrop", input_size=step["size"], **_kwargs(step, "size")),
        dict(type="Resize", scale=(step["size"], step["size"]), keep_ratio=False),
    ],
    "RandomCrop": lambda step: [dict(type="RandomCrop", size=step["size"])],
    "RandomErasing": lambda step: [dict(type="RandomErasing", erase_prob=step["p"])],
}


def use_mmaction_classes(cfg: Config) -> None:
    """Replace the training pipelines and the data preprocessor of a config, in place.

    The augmentation goes before ``FormatShape``. Steps that MMAction2 lacks remain.
    """
    preprocessor = cfg.model.data_preprocessor
    augment = preprocessor.pop("augment", None) or []
    preprocessor.type = "ActionDataPreprocessor"
    for dataset in leaf_datasets(cfg.train_dataloader.dataset):
        names = [type_name(step) for step in dataset.pipeline]
        end = names.index("FormatShape")
        steps = [*dataset.pipeline[:end], *augment, *dataset.pipeline[end:]]
        dataset.pipeline = [
            new for step in steps for new in SUBSTITUTES.get(type_name(step), lambda s: [s])(step)
        ]
