"""Losses of the first steps of each shipped recipe, on generated clips, with a tiny model.

    python -m tests.golden_losses

writes ``tests/golden/losses.txt``, which ``tests/test_golden_losses.py`` compares. Write it again
when a recipe changes on purpose; the difference shows which ones changed.

All is computed in 64 bits, and weights and clips are numpy's. What a recipe draws, such as
flips or dropped paths, comes from generators that are seeded before each run.
"""

import random
import tempfile
from collections.abc import Iterable, Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from torch import Tensor, nn

from mmvidformer import get_config, list_models
from mmvidformer.finetune.schedule import stretch
from mmvidformer.registry import MODELS
from tests.tiny_configs import SIDE, shrink

FILE = Path(__file__).parent / "golden" / "losses.txt"
EPOCHS, STEPS, BATCH = 5, 4, 2  # 20 steps of two clips
CLASSES = 4
WIDTH, RECURRENT_FRAMES = 16, 6
NAMES = list_models()


def train_steps(cfg: Config) -> list[float]:
    """Train the tiny model of a config with its optimizer, schedule and augmentation.

    Returns:
        The loss of each step.
    """
    is_recurrent = cfg.model.type.endswith("RecurrentRecognizer")
    cfg = shrink_recurrent(cfg) if is_recurrent else shrink_clips(cfg)
    set_classes(cfg)
    return run_steps(cfg, make_clips(cfg))


def run_steps(cfg: Config, samples: Sequence) -> list[float]:
    """Train a tiny model on samples, in their order, and return the loss of each step."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(cfg.model).double()
    set_weights(model)
    hook = LossHook()
    off = dict.fromkeys(("timer", "logger", "checkpoint", "sampler_seed", "runtime_info"))
    schedule = stretch(cfg, EPOCHS)
    schedulers = []
    for scheduler in schedule["param_scheduler"]:
        if scheduler.get("end", EPOCHS) * STEPS >= 1:  # MMEngine refuses a shorter warm-up
            schedulers.append(scheduler)
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(
            model=model,
            work_dir=folder,
            experiment_name=Path(folder).name,
            train_dataloader=dict(
                dataset=samples,
                batch_size=BATCH,
                num_workers=0,
                sampler=dict(type="DefaultSampler", shuffle=False),
                collate_fn=dict(type="pseudo_collate"),
            ),
            train_cfg=dict(by_epoch=True, **schedule["train_cfg"]),
            optim_wrapper=cfg.optim_wrapper,
            param_scheduler=schedulers,
            default_hooks=off,
            custom_hooks=[hook],
            default_scope="mmaction",
            randomness=dict(seed=0),
            log_level="ERROR",
        )
        runner.train()
    return hook.losses


def shrink_clips(cfg: Config) -> Config:
    """Return a config with a tiny model of clips, or of single frames if it has those."""
    clip_len = cfg.model.backbone.get("clip_len")
    has_data = all(cfg[f"{split}_dataloader"] for split in ("train", "val", "test"))
    if has_data:
        cfg = shrink(cfg)
    else:  # clips are drawn while training
        cfg = deepcopy(cfg)
        cfg.model.backbone.arch = dict(embed_dims=WIDTH, depth=1, num_heads=2)
        cfg.model.cls_head.in_channels = WIDTH
    if clip_len == 1:
        cfg.model.backbone.clip_len = 1
    return cfg


def shrink_recurrent(cfg: Config) -> Config:
    """Return a config with a tiny recurrent model, with a stem that is trained if it has a neck."""
    cfg = deepcopy(cfg)
    backbone, neck = cfg.model.backbone, cfg.model.get("neck")
    if neck is None:
        backbone.update(arch=dict(embed_dims=WIDTH, depth=1, num_heads=2), init_from=None)
        if backbone.get("frozen_stages", -1) > 1:
            backbone.update(frozen_stages=1, clip_len=RECURRENT_FRAMES, img_size=SIDE)
    else:
        cfg.model.backbone = dict(type="mmvidformer.ConvStem", channels=WIDTH)
        neck.update(in_channels=WIDTH, channels=[WIDTH] * len(neck.channels))
    cfg.model.cls_head.in_channels = WIDTH
    return cfg


def set_classes(cfg: Config) -> None:
    """Let a config tell a few classes."""
    head = cfg.model.cls_head
    if head.type.endswith("CameraMotionHead"):
        return
    if "tasks" in head:
        head.tasks = dict.fromkeys(head.tasks, CLASSES)
    else:
        head.num_classes = CLASSES
    blending = cfg.model.data_preprocessor.get("blending") or {}
    for mixing in (blending, *blending.get("augments", ())):
        if "num_classes" in mixing:
            mixing.num_classes = head.get("tasks", CLASSES)


def set_weights(model: nn.Module) -> None:
    """Draw all weights, those of norms around 1."""
    generator = np.random.RandomState(0)
    for name, parameter in model.named_parameters():
        values = torch.from_numpy(generator.standard_normal(tuple(parameter.shape)))
        scale = 0.02 if parameter.dim() < 2 else parameter[0].numel() ** -0.5
        shift = 1 if "norm" in name and name.endswith("weight") else 0
        parameter.data.copy_(shift + scale * values)


def make_clips(cfg: Config) -> list[dict]:
    """Generate clips of noise with a brighter spot, which moves by class."""
    backbone = cfg.model.backbone
    frames, side = backbone.get("clip_len", RECURRENT_FRAMES), backbone.get("img_size", SIDE)
    generator = np.random.RandomState(1)
    clips = []
    for number in range(STEPS * BATCH):
        label = number % CLASSES
        pixels = generator.randint(0, 128, (1, 3, frames, side, side))
        for frame in range(frames):
            place = (side // frames * frame * (-1) ** label) % side
            pixels[..., frame, (label // 2) * side // 2 :, place : place + 4] += 100
        sample = ActionDataSample()
        tasks = cfg.model.cls_head.get("tasks")
        sample.set_gt_label([label] * len(tasks) if tasks else label)
        velocity = np.linspace(-0.2, 0.2, 4) * label  # read if it is the motion of the camera
        sample.set_metainfo(dict(velocity=velocity, shake=0.01))
        clips.append(dict(inputs=torch.from_numpy(pixels.astype(np.uint8)), data_samples=sample))
    return clips


class LossHook(Hook):
    """Keeps the loss of each step."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: object, outputs: dict[str, Tensor]
    ) -> None:
        self.losses.append(float(outputs["loss"]))


def read_losses(file: Path = FILE) -> dict[str, list[float]]:
    """Return the losses of each recipe in a file."""
    losses = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        name, *values = line.split()
        losses[name] = [float(value) for value in values]
    return losses


def write_losses(file: Path, rows: Iterable[tuple[str, Sequence[float]]]) -> None:
    """Write the losses of each recipe to a file."""
    lines = []
    for name, values in rows:
        losses = " ".join(f"{loss:.9g}" for loss in values)
        lines.append(f"{name} {losses}\n")
        print(lines[-1], end="", flush=True)
    file.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write_losses(FILE, ((name, train_steps(get_config(name))) for name in NAMES))
