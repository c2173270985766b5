"""Decoding of videos on the device of the model, in place of dataloader workers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mmvidformer.config import leaf_datasets, type_name
from mmvidformer.errors import UserError
from mmvidformer.video.torchcodec_reader import import_torchcodec

if TYPE_CHECKING:  # takes seconds to import
    from mmengine.runner import Runner

# Transforms that change colors, or hand pixels to another library.
PIXELS = ("ColorJitter", "ImgAug", "PytorchVideoWrapper", "TorchVisionWrapper")
# Ways of resizing that take a value, or two of them, between pixels.
INTERPOLATIONS = ("bilinear", "nearest")


def decode_on_device(runner: "Runner") -> None:
    """Let workers hand on files, which the model's preprocessor decodes, resizes and crops.

    Samples, draws and labels are those of the pipelines of the config, which stays as it is. The
    preprocessor gets the policy for bad videos of the datasets. Call it after ``apply_policy``.

    Raises:
        ImportError: If TorchCodec or FFmpeg is missing.
        UserError: If a pipeline or the preprocessor cannot do so.
    """
    import_torchcodec()
    model = getattr(runner.model, "module", runner.model)
    preprocessor = model.data_preprocessor
    decoder = getattr(preprocessor, "decoder", None)
    if decoder is None:
        wanted = "the preprocessor mmvidformer.VideoDataPreprocessor"
        raise UserError(
            f"to decode on the device takes {wanted}, got {type(preprocessor).__name__}"
        )
    loaders = (runner._train_dataloader, runner._val_dataloader, runner._test_dataloader)
    policies = []
    for loader in filter(None, loaders):
        for leaf in leaf_datasets(loader["dataset"]):
            leaf["pipeline"] = hand_on_files(leaf["pipeline"])
        policies.append(loader["dataset"])  # a SafeDataset
    raises = any(policy.get("on_bad_video") == "raise" for policy in policies)
    decoder.on_bad_video = "raise" if raises else "resample"
    decoder.max_bad_share = min(policy.get("max_bad_share", 0.05) for policy in policies)


def hand_on_files(pipeline: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a pipeline that packs files of videos where one packs their frames.

    Raises:
        UserError: If it does not read videos, or changes pixels otherwise than by resizing,
            cropping and flipping.
    """
    names = [type_name(step) for step in pipeline]
    for name in ("VideoInit", "VideoDecode", "FormatShape", "PackActionInputs"):
        if name not in names:
            hint = "; --video-backend pyav puts it there" if name.startswith("Video") else ""
            steps = ", ".join(names)
            raise UserError(f"to decode on the device takes {name}{hint}; got {steps}")
    shape = dict(pipeline[names.index("FormatShape")])
    del shape["type"]
    steps = []
    for name, step in zip(names, pipeline, strict=True):
        if name == "VideoDecode":
            step = {"type": "mmvidformer.DecodeLater"}
        elif name == "PackActionInputs":
            step = {**step, "type": "mmvidformer.PackEncodedInputs", **shape}
        elif name != "FormatShape":
            _check(name, step)
        if name != "FormatShape":
            steps.append(dict(step))
    return steps


def _check(name: str, step: Mapping[str, Any]) -> None:
    """Raise a ``UserError`` if a transform cannot be repeated on the device."""
    where = "model.data_preprocessor.augment"
    if name in PIXELS:
        raise UserError(f"{name} changes pixels, so on the device it belongs into {where}")
    interpolation = step.get("interpolation", "bilinear")
    if interpolation not in INTERPOLATIONS:
        known = " or ".join(INTERPOLATIONS)
        raise UserError(f"{name} must resize by {known} on the device, got {interpolation!r}")
    if name == "VideoInit" and step.get("backend") == "decord":
        raise UserError("VideoInit must open videos by pyav or torchcodec, got 'decord'")
