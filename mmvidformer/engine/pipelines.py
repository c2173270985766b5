import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmvidformer.config import leaf_datasets, pipelines, type_name
from mmvidformer.config.fragments import Fragment, replace, without
from mmvidformer.data.shards.index import INDEX
from mmvidformer.data.splits import SPLITS
from mmvidformer.errors import UserError
from mmvidformer.storage.files import exists, join

# Crop transforms, and how many crops of a frame each takes.
CROPS = {"CenterCrop": 1, "ThreeCrop": 3, "TenCrop": 10}

# Arguments of transforms that are of views, or not of pixels.
VIEW_KEYS = {"type", "num_clips", "twice_sample", "test_mode", "meta_keys"}

DIFFERENT = "validation and test may differ in clips and crops, but prepare videos differently"

# Transforms that open a video, and those that decode it then.
OPEN = ("DecordInit", "OpenCVInit", "PyAVInit", "VideoInit")
DECODE = ("DecordDecode", "OpenCVDecode", "PyAVDecode", "VideoDecode")
# Facts of a sample that ``PackActionInputs`` keeps by default.
META_KEYS = ("img_shape", "img_key", "video_id", "timestamp")

# Arguments of datasets that do not say how a list is read.
KEPT_WITH_SHARDS = ("pipeline", "test_mode", "metainfo", "multi_class", "num_classes", "indices")


def set_views(cfg: Config, clips: int, crops: int) -> None:
    """Set the sampler's ``num_clips`` and the crops in the test pipelines of ``cfg``, in place.

    A network of 2D convolutions joins its clips, of a frame each: their number stays.

    Args:
        cfg: Complete config.
        clips: Number of temporal clips, evenly spaced.
        crops: 1 (center), 3 (along the longer side) or 10 (corners and center, and flipped).

    Raises:
        UserError: If a pipeline has no clips, or no crop, of which several are needed.
    """
    for pipeline in _test_pipelines(cfg):
        sampler, crop = _find(pipeline)
        names = ", ".join(map(type_name, pipeline))
        if _joins_clips(pipeline):
            if clips > 1:
                raise UserError(f"a network that joins its clips has one view of them: 1x{crops}")
        elif sampler is not None:
            sampler["num_clips"] = clips
        elif clips > 1:  # other samplers cover a video, or show a moment
            wanted = f"the test pipeline must have a transform that samples; got {names}"
            raise UserError(f"{wanted}; without, use 1x{crops} views")
        if crop is None and crops > 1:
            wanted = f"the test pipeline must have one of {', '.join(CROPS)}; got {names}"
            raise UserError(f"{wanted}; without, use {clips}x1 views")
        if crop is None or CROPS[type_name(crop)] == crops:
            continue
        size = crop["crop_size"]
        crop.clear()
        name = next(name for name, number in CROPS.items() if number == crops)
        crop.update(type=f"mmvidformer.{name}" if crops == 3 else name, crop_size=size)


def check_views(cfg: Config) -> None:
    """Check that validation and testing prepare videos alike: they may differ in their views.

    Views are the clips of a video and the crops of a frame.

    Raises:
        UserError: If they differ in something else; names the keys of the config.
    """
    loaders = [cfg.get(f"{split}_dataloader") or {} for split in ("val", "test")]
    val_steps, test_steps = (next(pipelines(x.get("dataset", {})), None) for x in loaders)
    if val_steps is None or test_steps is None:
        return
    place = "test_dataloader.dataset.pipeline"
    val_names, test_names = (
        ["crop" if type_name(step) in CROPS else type_name(step) for step in steps]
        for steps in (val_steps, test_steps)
    )
    if val_names != test_names:
        raise UserError(
            f"{DIFFERENT}: {place} is {', '.join(test_names)}, in validation {', '.join(val_names)}"
        )
    differences, remedies = [], []
    for number, (val_step, test_step) in enumerate(zip(val_steps, test_steps, strict=True)):
        if val_names[number] in (*OPEN, *DECODE):  # all decoders give the same frames
            continue
        for key in sorted((val_step.keys() | test_step.keys()) - VIEW_KEYS):
            in_val, in_test = val_step.get(key), test_step.get(key)
            if in_val != in_test:
                differences.append(f"{place}.{number}.{key} is {in_test}, in validation {in_val}")
                split, value = ("test", in_val) if key in val_step else ("val", in_test)
                name = f"{split}_dataloader.dataset.pipeline.{number}.{key}"
                remedies.append(f'"{name}={value}"'.replace(" ", ""))
    if differences:
        remedy = f"to prepare them alike, add --cfg-options {' '.join(remedies)}"
        raise UserError(f"{DIFFERENT}: {'; '.join(differences)}; {remedy}")


def align_clips(cfg: Config, tubelet: int) -> None:
    """Put ``AlignClips`` after the sampler in the test pipelines of ``cfg``, in place.

    Data samples get the numbers of the frames, ``frame_inds``.

    Raises:
        UserError: If a pipeline samples no clips.
    """
    for pipeline in _test_pipelines(cfg):
        sampler, _ = _find(pipeline)
        if sampler is None:
            raise UserError("the test pipeline must have a transform that samples")
        align = {"type": "mmvidformer.AlignClips", "tubelet": tubelet}
        pipeline.insert(next(i for i, step in enumerate(pipeline, 1) if step is sampler), align)
        packed = pipeline[-1].get("meta_keys", META_KEYS)
        pipeline[-1]["meta_keys"] = (*packed, "frame_inds")


def get_views(cfg: Config) -> tuple[int, int]:
    """Clips (1 if their number depends on the video) and crops in the test pipeline of ``cfg``."""
    pipeline = next(_test_pipelines(cfg), [])
    sampler, crop = _find(pipeline)
    clips = 1 if sampler is None or _joins_clips(pipeline) else sampler.get("num_clips") or 1
    return clips, CROPS[type_name(crop)] if crop else 1


def _test_pipelines(cfg: Config) -> Iterator[list[dict]]:
    if cfg.get("test_dataloader"):
        yield from pipelines(cfg.test_dataloader.dataset)
    if cfg.get("test_pipeline"):
        yield cfg.test_pipeline


def _joins_clips(pipeline: Sequence[dict]) -> bool:
    return any(step.get("input_format") == "NCHW" for step in pipeline)


def _find(pipeline: Sequence[dict]) -> tuple[dict | None, dict | None]:
    names = "Sample|SpanFrames"  # of samplers without num_clips
    samplers = (s for s in pipeline if "num_clips" in s or re.search(names, type_name(s)))
    return next(samplers, None), next((s for s in pipeline if type_name(s) in CROPS), None)


def set_video_backend(cfg: Config, backend: str, **options: object) -> None:
    """Let all pipelines of a config decode with ``mmvidformer.VideoInit`` and ``VideoDecode``.

    Args:
        cfg: Config; changed in place.
        backend: Name in ``choices.BACKENDS``, such as ``'pyav'``.
        **options: Other arguments of ``VideoInit``.

    Raises:
        UserError: If no pipeline opens videos.
    """
    steps = list(dicts_in(cfg._cfg_dict))
    opening = [step for step in steps if type_name(step) in OPEN]
    if not opening:
        wrong = f"no pipeline of the config opens videos (with {', '.join(OPEN)})"
        raise UserError(f"cannot use the video backend {backend!r}: {wrong}")
    for step in opening:
        step.update(type="mmvidformer.VideoInit", backend=backend, **options)
    for step in steps:
        if type_name(step) in DECODE:
            step.clear()
            step["type"] = "mmvidformer.VideoDecode"


def dicts_in(part: object) -> Iterator[dict]:
    """Yield all dictionaries in a part of a config."""
    if isinstance(part, dict):
        yield part
    if isinstance(part, dict | list | tuple):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from dicts_in(inner)


def datasets_in(cfg: Config) -> Iterator[tuple[str, Any, Any]]:
    """Yield the configs of all datasets, with their splits and dataloaders."""
    for split in SPLITS:
        if loader := cfg.get(f"{split}_dataloader"):
            yield from ((split, loader, leaf) for leaf in leaf_datasets(loader.dataset))


def use_shards(cfg: Config, folder: str) -> None:
    """Let the datasets of a config read the shards of their lists (``mmvidformer data shard``).

    Those of the list ``train.csv`` are in ``folder/train``. Lists without shards stay.

    Args:
        cfg: Config; changed in place.
        folder: Folder or address.

    Raises:
        UserError: If there are no shards of any list.
    """
    names = []
    for _, _, dataset in datasets_in(cfg):
        names.append(Path(dataset.get("ann_file") or "").stem)
        shards = join(folder, names[-1])
        if not exists(join(shards, INDEX)):
            continue
        for key in [key for key in dataset if key not in KEPT_WITH_SHARDS]:
            del dataset[key]
        dataset.update(type="mmvidformer.ShardedVideoDataset", ann_file=shards)
    if not any(type_name(dataset) == "ShardedVideoDataset" for _, _, dataset in datasets_in(cfg)):
        raise UserError(f"{folder} has no shards of the lists {', '.join(dict.fromkeys(names))}")


def classes_fragment(cfg: Config, names: Sequence[str]) -> Fragment:
    """Return the fragment that sets the number of classes, and their names as ``class_names``."""
    model: Fragment = {"cls_head": {"num_classes": len(names)}}
    preprocessor = cfg.model.get("data_preprocessor")
    if preprocessor:
        model["data_preprocessor"] = _with_count(preprocessor, len(names))  # blending of videos
    fragment: Fragment = {"model": model, "class_names": list(names)}
    for split, loader, dataset in datasets_in(cfg):
        if dataset is loader.dataset:  # without the class names of the config's own data
            unnamed = without(dataset, "metainfo")
            fragment[f"{split}_dataloader"] = replace(loader, "dataset", unnamed)
    return fragment


def _with_count(part: Any, count: int) -> Any:
    """Return a part of a config with this number of classes throughout."""
    if isinstance(part, Mapping):
        counts = {name: count for name in part if name == "num_classes"}
        return {name: _with_count(value, count) for name, value in part.items()} | counts
    if isinstance(part, list | tuple):
        return type(part)(_with_count(inner, count) for inner in part)
    return part
