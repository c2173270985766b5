"""Published checkpoints against published logits, and against the code of transformers."""

import json
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.functional import resize

from mmvidformer.apis.checkpoint_config import config_of_checkpoint
from mmvidformer.checkpoints import published, read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.download import fetch, hash_of
from mmvidformer.checkpoints.formats import FORMATS
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.metadata import CLASSIFIER
from mmvidformer.checkpoints.reading import WEIGHTS
from mmvidformer.config import clip_shape, get_config, type_name
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.registry import MODELS

VIDEOS = "hf-internal-testing/spaghetti-video"  # dataset of the hub
TOLERANCE = 1e-4
PACKAGES = ("mmvidformer", "torch", "transformers", "numpy")


class Check(NamedTuple):
    """Input of a check: the first frames of a video, resized, cropped in the center, normalized.

    Mean and standard deviation are those of pixels from 0 to 255.
    """

    video: str
    frames: int
    short_side: int
    mean: float
    std: float


# As in the tests of transformers: defaults of VideoMAEImageProcessor, and of VivitImageProcessor,
# which scales pixels to [-1, 1] before it normalizes them with 0.5 and 0.5.
CHECKS = {
    "timesformer": Check("eating_spaghetti.npy", 8, 224, 127.5, 127.5),
    "videomae": Check("eating_spaghetti.npy", 16, 224, 127.5, 127.5),
    "vivit": Check("eating_spaghetti_32_frames.npy", 32, 256, 191.25, 63.75),
}


@dataclass
class Verified:
    """Result for a checkpoint.

    Attributes:
        name: Name in the table.
        sha256: Hash of the file; empty if it could not be fetched.
        format: Title of its format.
        notes: What the converter ignored, missed and assumed.
        size: Side of the frames of the published logits; None if there are none.
        difference: Largest difference from them.
        code: What else was compared, such as ``transformers' VivitModel, tokens (1, 3137, 768)``.
        code_difference: Largest difference from it, relative to its largest value or 1.
        error: Why the checkpoint could not be fetched or loaded.
    """

    name: str
    sha256: str = ""
    format: str = ""
    notes: list[str] = field(default_factory=list)
    size: int | None = None
    difference: float | None = None
    code: str = ""
    code_difference: float | None = None
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether the checkpoint was loaded, and nothing that was compared differs."""
        differences = [x for x in (self.difference, self.code_difference) if x is not None]
        return not self.error and all(x <= TOLERANCE for x in differences)

    @property
    def compared(self) -> bool:
        """Whether there was anything to compare with."""
        return self.difference is not None or self.code_difference is not None

    @property
    def verdict(self) -> str:
        """The result in words."""
        if self.error:
            return "could not be loaded"
        if not self.passed:
            return "differs"
        return "equal" if self.compared else "loads; nothing to compare with"


@torch.no_grad()
def verify(row: published.Published) -> Verified:
    """Fetch a published checkpoint, convert it, and compare what it computes.

    It is compared with its published logits, if the table has any, and with the model of
    transformers that its folder names. The check was published without the size of the frames; of
    224 pixels and the config's size the one with the smaller difference is reported.
    """
    result = Verified(row.name)
    source = published.PREFIX + row.name
    try:
        path = fetch(source)
        weights = path
        if path.is_dir():
            weights = next(path / name for name in WEIGHTS if (path / name).is_file())
        result.sha256 = hash_of(weights)
        name, conversion = read_model(source)
        result.format = FORMATS[name].title
        for what in ("ignored", "missing"):
            if names := getattr(conversion, what):
                result.notes.append(f"{what}: {len(names)} tensors ({', '.join(names[:3])} ...)")
        result.notes += conversion.notes
        if row.config or row.check:
            compare_logits(row, result)
        if path.is_dir() and (path / "config.json").is_file():
            compare_code(source, path, conversion, result)
    except (OSError, ValueError) as error:
        result.error = str(error).partition("\n")[0]
    return result


def compare_logits(row: published.Published, result: Verified) -> None:
    """Load a checkpoint into its config, and compare its logits with the published ones."""
    source = published.PREFIX + row.name
    cfg = get_config(row.config) if row.config else config_of_checkpoint(source).cfg
    if type_name(cfg.model.backbone) == "TimeSformer":  # as HuggingFace's model
        cfg.model.backbone.positions = dict(type="space_time", rule="nearest")
    model = load_recognizer(cfg, source)
    if not row.check:
        return
    from huggingface_hub import hf_hub_download

    check, expected = CHECKS[row.check["input"]], torch.tensor(row.check["logits"])
    file = hf_hub_download(VIDEOS, check.video, repo_type="dataset")  # nosec B615
    video = np.load(file, allow_pickle=False)
    for size in sorted({224, clip_shape(cfg)[-1]}):
        logits = model.cls_head.fc_cls(model.backbone(check_clip(check, video, size)))
        difference = (logits[0, : len(expected)] - expected).abs().max().item()
        if result.difference is None or difference < result.difference:
            result.size, result.difference = size, difference


def compare_code(source: str, folder: Path, conversion: Conversion, result: Verified) -> None:
    """Compare a HuggingFace folder with the model of transformers, on a clip of random numbers.

    The outputs are logits, or the tokens if there is no classifier. Nothing is compared if
    transformers is missing or has no model for the folder; no code of the folder is run.
    """
    try:
        import transformers
    except ImportError:
        result.notes.append("transformers is not installed; its code was not compared")
        return
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    classifies = CLASSIFIER in conversion.state
    auto = transformers.AutoModelForVideoClassification if classifies else transformers.AutoModel
    try:
        theirs: Any = auto.from_pretrained(folder).eval()  # nosec B615: a local folder
    except (ValueError, KeyError) as error:
        result.notes.append(f"transformers cannot read it: {str(error).partition(chr(10))[0]}")
        return
    arguments = backbone_arguments(conversion)
    frames, (height, width) = arguments["clip_len"], arguments["img_size"]
    generator = torch.Generator().manual_seed(0)
    clip = torch.randn(1, 3, frames, height, width, generator=generator)
    options = {"skip_predictor": True} if settings["model_type"] == "vjepa2" else {}
    output = theirs(**{theirs.main_input_name: clip.transpose(1, 2)}, **options)
    expected = output.logits if classifies else output.last_hidden_state
    outputs = _logits(source, clip) if classifies else _tokens(conversion, arguments, clip)
    what = "logits" if classifies else "tokens"
    result.code = f"transformers' {type(theirs).__name__}, {what} {tuple(expected.shape)}"
    scale = expected.abs().max().clamp(min=1)
    result.code_difference = ((outputs - expected).abs().max() / scale).item()


def _logits(source: str, clip: Tensor) -> Tensor:
    model = load_recognizer(config_of_checkpoint(source).cfg, source)
    return model.cls_head(model.backbone(clip))


def _tokens(conversion: Conversion, arguments: dict[str, Any], clip: Tensor) -> Tensor:
    """Class token, if there is one, and the others, (1, N, D)."""
    backbone = MODELS.build({"type": f"mmvidformer.{conversion.model}", **arguments}).eval()
    stem = "backbone."
    state = {n.removeprefix(stem): x for n, x in conversion.state.items() if n.startswith(stem)}
    backbone.load_state_dict(state)
    return backbone.forward_features(clip).tensor


def check_clip(check: Check, video: np.ndarray, size: int) -> Tensor:
    """Clip (1, 3, T, size, size) of a video (frames, H, W, 3) of type uint8."""
    frames = []
    for frame in video[: check.frames]:
        image = resize(Image.fromarray(frame), check.short_side * size // 224)
        top, left = (image.height - size) // 2, (image.width - size) // 2
        frames.append(np.asarray(image)[top : top + size, left : left + size])
    clip = torch.from_numpy(np.stack(frames)).permute(3, 0, 1, 2)[None].float()
    return (clip - check.mean) / check.std


def report(row: published.Published, result: Verified, by: str) -> Iterator[str]:
    """Lines of a page in Markdown that can be shared.

    Args:
        row: What was verified.
        result: Result of ``verify``.
        by: Who checked it.
    """
    date = time.strftime("%Y-%m-%d")
    yield f"# {row.name}: {result.verdict}"
    yield ""
    lines = {
        "checked by": f"{by or 'unknown'}, {date}",
        "address": row.address,
        "license": row.license or "unknown",
        "SHA-256": result.sha256 or "-",
        "format": result.format or "-",
        "published logits": _describe(result.difference, f"frames of {result.size} pixels"),
        "their code": _describe(result.code_difference, result.code),
        "tolerance": f"{TOLERANCE:g}",
        "versions": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
        "machine": f"{platform.platform()}, Python {platform.python_version()}",
    }
    if result.error:
        lines["error"] = result.error
    yield "| | |"
    yield "|---|---|"
    for name, value in lines.items():
        yield f"| {name} | {value} |"
    if result.notes:
        yield ""
        yield from (f"- {note}" for note in result.notes)
    if result.passed:
        yield ""
        yield "For the table of published checkpoints:"
        yield ""
        yield f'    sha256: "{result.sha256}"'
    if result.passed and result.compared:
        yield f'    verified: "{by or "unknown"}, {date}"'


def _describe(difference: float | None, what: str) -> str:
    return (
        "none to compare with"
        if difference is None
        else f"largest difference {difference:.1e}, {what}"
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"
