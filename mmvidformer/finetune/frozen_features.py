"""Features of a frozen backbone, computed once for all classifiers on them."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor, nn
from tqdm import tqdm

from mmvidformer.apis.bulk.reading import Clip, read_groups
from mmvidformer.apis.bulk.run import cut
from mmvidformer.apis.pipeline import VideoPipeline, inference_transforms, normalize
from mmvidformer.checkpoints.download import hash_of
from mmvidformer.data.list_folders import LONG, VideoLists
from mmvidformer.data.splits import SPLITS
from mmvidformer.finetune import long_videos
from mmvidformer.finetune.rows import videos_of
from mmvidformer.layers.changes import measure_changes
from mmvidformer.layers.outputs import SomeOutputs, average_places, join_places, normalize_layers
from mmvidformer.sinks.video_files import place_of, write_features
from mmvidformer.storage.resuming import check_settings
from mmvidformer.video.processes import Lost

CLIPS = 4  # of a forward pass
LAYER_SHARES = (1 / 2, 3 / 4, 1)  # of the depth, whose tokens show changes


@torch.no_grad()
def compute_features(
    cfg: Config,
    model: nn.Module,
    lists: VideoLists,
    folder: Path,
    forms: Sequence[str],
    workers: int = 0,
) -> None:
    """Compute the features that are not in a folder yet, of a video or all clips of a long one.

    The model, a recognizer in evaluation mode, has the weights that its config names as
    ``load_from``. Files are ``FOLDER/FORM/PATH_OF_VIDEO.npy``, of clips (N, ...): the center view
    first, then those that cover a long video (``long_videos``). Forms are ``'vectors'`` (N, D),
    averaged over the tokens if the backbone leaves that to its head, ``'tokens'`` (N, T H W, D),
    and ``'changes'`` (N, C) (``layers.changes``) of the tokens of ``change_layers``.
    Videos are read by ``workers`` processes, by this one if there are none.

    Raises:
        FileExistsError: If the folder has features of other weights or settings.
    """
    backbone = model.backbone
    settings = feature_settings(cfg)
    for form in forms:
        pool = {"pool": backbone.pool} if form == "vectors" else {}
        has_features = any((folder / form).rglob("*.npy"))
        check_settings(folder / form, settings | pool, has_features)
    targets: dict[Path, dict[str, Path]] = {}  # file of each form, by video
    for split in SPLITS:
        for video, *_ in videos_of(lists, split):
            place = place_of(video, lists.root)
            targets[video] = {form: folder / form / place for form in forms}
    missing = [video for video in targets if not all(map(Path.exists, targets[video].values()))]
    progress = tqdm(total=len(missing), unit="video", disable=None)
    groups = cut([(str(video), str(video)) for video in missing], CLIPS)
    read_clips = long_videos.LongVideoReader(VideoPipeline(cfg, 1))
    unfinished: dict[str, dict[int, dict[str, np.ndarray]]] = {}  # of a video, by number of clip
    for message in read_groups(read_clips, groups, CLIPS, workers):
        if isinstance(message, Lost):
            for name, reason in message.failed:
                tqdm.write(f"left out: {name}: {reason}", file=sys.stderr)
            continue
        progress.update(len(message.finished))
        by_shape: dict[torch.Size, list[Clip]] = {}
        for clip in message.clips:
            if clip.error is not None:
                tqdm.write(f"left out: {clip.error}", file=sys.stderr)
                continue
            by_shape.setdefault(clip.sample["inputs"].shape, []).append(clip)
        for clips in by_shape.values():
            pixels = normalize(model, torch.cat([clip.sample["inputs"] for clip in clips]))
            features = _encode(backbone, pixels, forms)
            for row, clip in enumerate(clips):
                of_clip = {form: features[form][row].float().cpu().numpy() for form in forms}
                of_video = unfinished.setdefault(clip.name, {})
                of_video[clip.where["number"]] = of_clip
                if len(of_video) == clip.where["count"]:
                    _write(unfinished.pop(clip.name), targets[Path(clip.name)])
    progress.close()


def _write(clips: dict[int, dict[str, np.ndarray]], targets: dict[str, Path]) -> None:
    """Write the features of each form of all clips of a video, by number of clip."""
    for form, target in targets.items():
        write_features(target, np.stack([clips[number][form] for number in sorted(clips)]))


def change_layers(backbone: nn.Module) -> tuple[int, ...]:
    """Return the blocks whose tokens show changes: in the middle of the last encoder, and later."""
    depths = [len(encoder.blocks) for encoder in backbone.encoders]
    first, depth = sum(depths[:-1]), depths[-1]
    numbers = {first + math.ceil(share * depth) - 1 for share in LAYER_SHARES}
    return tuple(sorted(numbers))


def _encode(backbone: Any, pixels: Tensor, forms: Sequence[str]) -> dict[str, Tensor]:
    """Return features of each form, of normalized clips."""
    layers = change_layers(backbone)
    outputs = SomeOutputs(layers)
    tokens = backbone.forward_features(pixels, outputs)
    features = {}
    if "vectors" in forms:
        features["vectors"] = average_places(backbone.pool_features(tokens))
    if "tokens" in forms:
        features["tokens"] = backbone.fc_norm(tokens.places).flatten(1, 3)
    if "changes" in forms:
        joined = join_places(backbone, outputs, len(pixels), layers)
        features["changes"] = measure_changes(normalize_layers(backbone, joined), len(layers))
    return features


def feature_settings(cfg: Config) -> dict[str, str]:
    """Return what the features of a config depend on, but for the pooling."""
    base = cfg.load_from
    backbone = {
        name: value
        for name, value in cfg.model.backbone.items()
        if name not in ("pool", "out_layers", "frozen_stages")
    }
    preprocessor = cfg.model.get("data_preprocessor") or {}
    return {
        "base": hash_of(Path(base)) if Path(base).is_file() else base,
        "pipeline": repr(inference_transforms(cfg, 1)),
        "clips": f"up to {long_videos.MOST} of videos over {LONG:g} s",
        "backbone": repr(backbone),
        "pixels": repr([preprocessor.get("mean"), preprocessor.get("std")]),
    }
