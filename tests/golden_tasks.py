"""Losses of the first steps of what ``finetune`` and ``pretrain`` make of a config.

    python -m tests.golden_tasks

writes ``tests/golden/task_losses.txt``, as ``tests/golden_losses.py`` does for shipped recipes: of
each task, each method that trains the backbone, masked pretraining, and the configs of tasks.
Lists, samplers, labels, transforms, losses and optimizers are those of the product; frames are
numpy's, in place of those of files.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from mmaction.structures import ActionDataSample
from mmcv.transforms import BaseTransform
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData

from mmvidformer import get_config
from mmvidformer.finetune.pretraining import apply_pretraining
from mmvidformer.finetune.recipe import apply_recipe
from mmvidformer.finetune.settings import Pretraining, Recipe
from mmvidformer.registry import DATASETS, TRANSFORMS
from mmvidformer.tasks.lists import read_task_lists
from mmvidformer.video.video import Video
from tests.golden_losses import BATCH, STEPS, WIDTH, run_steps, shrink_clips, write_losses
from tests.tiny_configs import SIDE

FILE = Path(__file__).parent / "golden" / "task_losses.txt"
VIDEOS, FRAMES, RATE = STEPS * BATCH, 100, 25
# The list of training of each task: its suffix, and its text from the number of a video.
LISTS: dict[str, tuple[str, str, Callable[[int], str]]] = {
    "classes": ("txt", "", lambda n: f"{n}.mp4 {n % 2}"),
    "labels": ("txt", "", lambda n: f"{n}.mp4 {n % 2}" + " 1" * (n % 4 == 0)),
    "number": ("csv", "video,speed", lambda n: f"{n}.mp4,{n / 4}"),
    "frames": ("csv", "video,start,end,label", lambda n: spans_of(n)),
    "segments": ("csv", "video,start,end,label", lambda n: spans_of(n)),
    "moments": ("csv", "video,time,label", lambda n: f"{n}.mp4,{n / 4 + 0.5},{'xy'[n % 2]}"),
    "boxes": (
        "csv",
        "video,time,x1,y1,x2,y2,label",
        lambda n: f"{n}.mp4,{n / 8 + 1},0.1,0.2,0.{4 + n % 5},0.9,{'xy'[n % 2]}",
    ),
}


def spans_of(number: int) -> str:
    """Return rows of short spans of a video, which two classes have in turn."""
    rows = []
    for place in range(10):
        start, label = 0.4 * place, "xy"[(place + number) % 2]
        rows.append(f"{number}.mp4,{start:.2f},{start + 0.2 + 0.02 * number:.2f},{label}")
    return "\n".join(rows)


class NoiseInit(BaseTransform):
    """Opens noise, with a bright spot that moves, in place of a file."""

    def transform(self, results: dict) -> dict:
        """Add what ``VideoInit`` adds."""
        number = int(Path(results["filename"]).stem)
        frames = np.random.RandomState(number).randint(0, 128, (FRAMES, SIDE, SIDE, 3))
        for moment, frame in enumerate(frames):
            place = moment * (1 + number % 2) % (SIDE - 4)
            frame[:, place : place + 4] += 100
        video = Video.open(frames.astype(np.uint8), rate=RATE)
        facts = dict(total_frames=FRAMES, avg_fps=float(RATE), start_index=0)
        return {**results, **facts, "video_reader": video}


def read_samples(cfg: Config) -> torch.utils.data.Dataset:
    """Build the dataset of training of a config, on noise."""
    TRANSFORMS.register_module("NoiseInit", module=NoiseInit, force=True)
    settings = cfg.train_dataloader.dataset
    first, *others = settings.pipeline
    with DefaultScope.overwrite_default_scope("mmaction"):
        return DATASETS.build(
            {**settings, "pipeline": [{"type": "mmvidformer.NoiseInit"}, *others]}
        )


def shrink_base(name: str) -> Config:
    """Return a config with a tiny model, whose dataloaders read tiny clips."""
    cfg = shrink_clips(get_config(name))
    for split in ("train", "val", "test"):
        cfg[f"{split}_dataloader"].dataset.pipeline = cfg[f"{split}_pipeline"]
    return cfg


def finetune(folder: Path, name: str = "vivit_fe_motion", **settings: object) -> list[float]:
    """Return the losses of a recipe for videos of a task."""
    recipe = Recipe(epochs=5, batch=BATCH, **settings)
    suffix, header, line = LISTS[recipe.task]
    lines = [*[header] * bool(header), *map(line, range(VIDEOS))]
    (folder / f"train.{suffix}").write_text("\n".join(lines) + "\n")
    (folder / "classes.txt").write_text("x\ny\n")
    for number in range(VIDEOS):
        (folder / f"{number}.mp4").touch()  # it is looked for, and not read
    cfg, _ = apply_recipe(shrink_base(name), read_task_lists(folder, recipe.task), recipe)
    return run_steps(cfg, read_samples(cfg))


def pretrain(folder: Path) -> list[float]:
    """Return the losses of masked pretraining."""
    videos = [folder / f"{number}.mp4" for number in range(VIDEOS)]
    settings = Pretraining(epochs=5, batch=BATCH)
    cfg, _ = apply_pretraining(shrink_base("vivit_fe_motion"), videos, folder, settings)
    return run_steps(cfg, read_samples(cfg))


def train_features(folder: Path, name: str) -> list[float]:
    """Return the losses of a config of saved features, on clips of 64 rows of some."""
    cfg = get_config(name)
    cfg.model.cls_head.update(num_classes=2, in_channels=WIDTH, hidden_dim=WIDTH)
    _, header, line = LISTS["segments"]
    facts = dict(every=1, span=1, fps=float(RATE), frames=FRAMES)
    for number in range(VIDEOS):
        values = np.random.RandomState(number).standard_normal((FRAMES, WIDTH))
        np.savez(folder / f"{number}.npz", features=values, **facts)
    lines = [header, *(line(number).replace(".mp4", "") for number in range(VIDEOS))]
    (folder / "train.csv").write_text("\n".join(lines) + "\n")
    settings = dict(type="mmvidformer.SpanDataset", overlap=True, suffix=".npz")
    settings |= dict(ann_file=str(folder / "train.csv"), data_prefix=dict(video=str(folder)))
    load = dict(type="mmvidformer.LoadFeatures", rows=64, least=0.9)
    pack = cfg.train_dataloader.dataset.pipeline[-1]
    np.random.seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        classes = dict(metainfo=dict(classes=["x", "y"]))
        dataset = DATASETS.build({**settings, **classes, "pipeline": [load, pack]})
    cfg.model.data_preprocessor.update(mean=[0.0], std=[1.0])  # in 64 bits, as all
    return run_steps(cfg, [dataset[number] for number in range(VIDEOS)])


def train_labels(folder: Path, name: str) -> list[float]:
    """Return the losses of a config of one or several labels a clip."""
    return run_steps(cfg := shrink_clips(get_config(name)), make_samples(cfg, set_labels))


def train_boxes(folder: Path, name: str) -> list[float]:
    """Return the losses of a config of boxes."""
    return run_steps(cfg := shrink_clips(get_config(name)), make_samples(cfg, set_boxes))


def set_labels(sample: ActionDataSample, number: int, classes: int, is_multiple: bool) -> None:
    """Give a sample its class, or its labels."""
    labels = torch.zeros(classes).index_fill(0, torch.tensor([number, number // 2 + 4]), 1)
    sample.set_gt_label(labels if is_multiple else number)


def set_boxes(sample: ActionDataSample, number: int, classes: int, is_multiple: bool) -> None:
    """Give a sample two boxes with two classes each."""
    boxes = torch.tensor([[2.0, 3, 20 + number, 30], [8, 1, 28, 16 + number]])
    labels = torch.zeros(2, classes)
    labels[:, [number + 1, 9]] = 1
    sample.gt_instances = InstanceData(bboxes=boxes, labels=labels)


def make_samples(cfg: Config, annotate: Callable[..., None]) -> list[dict]:
    """Make clips of noise with annotations."""
    backbone, head = cfg.model.backbone, cfg.model.cls_head
    shape = (1, 3, backbone.clip_len, backbone.img_size, backbone.img_size)
    generator = np.random.RandomState(1)
    samples = []
    for number in range(VIDEOS):
        sample = ActionDataSample()
        annotate(sample, number, head.num_classes, head.type.endswith("MultiLabelHead"))
        sample.set_metainfo(dict(img_shape=shape[-2:]))
        pixels = torch.from_numpy(generator.randint(0, 256, shape).astype(np.uint8))
        samples.append(dict(inputs=pixels, data_samples=sample))
    return samples


RECIPES: dict[str, Callable[[Path], list[float]]] = {
    **{
        f"task_{task}": partial(finetune, task=task)
        for task in ("classes", "labels", "number", "frames", "segments", "moments")
    },
    "task_boxes": partial(finetune, name="timesformer_motion", task="boxes"),
    "method_lora": partial(finetune, method="lora"),
    "method_adapter": partial(finetune, method="adapter"),
    "layer_decay": partial(finetune, layer_decay=0.75),
    "token_keep": partial(finetune, name="timesformer_motion", token_keep=0.5),
    "pretrain": pretrain,
    **{
        name: partial(train_labels, name=name)
        for name in ("timesformer_b_charades", "camera_motion_videos")
    },
    **{
        name: partial(train_features, name=name)
        for name in ("features_anet13", "features_thumos14")
    },
    **{
        name: partial(train_boxes, name=name)
        for name in ("timesformer_b_ava22", "videomae_b_ava22")
    },
}


def train(name: str) -> list[float]:
    """Return the losses of a recipe of this file."""
    with tempfile.TemporaryDirectory() as folder:
        return RECIPES[name](Path(folder).resolve())


if __name__ == "__main__":
    write_losses(FILE, ((name, train(name)) for name in RECIPES))
