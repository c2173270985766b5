"""Losses of the first steps of each shipped recipe, on generated clips, with a tiny model.

    python -m tests.golden_losses

writes ``tests/golden/losses.txt``, which ``tests/test_golden_losses.py`` compares. Write it again
when a recipe changes on purpose; the difference shows which ones changed.

All is computed in 64 bits, and weights and clips are numpy's. What a recipe draws, such as
flips or dropped paths, comes from generators that are seeded before each run.
"""

import random
import tempfile
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
from tests.tiny_configs import shrink

FILE = Path(__file__).parent / "golden" / "losses.txt"
EPOCHS, STEPS, BATCH = 5, 4, 2  # 20 steps of two clips
CLASSES = 4
# Recognizers of clips; the recurrent ones and those of images read other data.
NAMES = [
    name
    for name in list_models()
    if not name.endswith("_image") and not name.startswith(("horst_", "causal_", "camera_"))
]


def train_steps(cfg: Config) -> list[float]:
    """Train the tiny model of a config with its optimizer, schedule and augmentation.

    Returns:
        The loss of each step.
    """
    cfg = shrink(cfg)
    set_classes(cfg)
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
                dataset=make_clips(cfg),
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


def set_classes(cfg: Config) -> None:
    """Let a config tell a few classes."""
    head = cfg.model.cls_head
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
    frames, side = backbone.clip_len, backbone.img_size
    generator = np.random.RandomState(1)
    clips = []
    for number in range(STEPS * BATCH):
        label = number % CLASSES
        pixels = generator.randint(0, 128, (1, 3, frames, side, side))
        for frame in range(frames):
            place = (side // frames * frame * (-1) ** label) % side
            pixels[..., frame, (label // 2) * side // 2 :, place : place + 4] += 100
        sample = ActionDataSample()
        has_tasks = "tasks" in cfg.model.cls_head
        sample.set_gt_label([label, label] if has_tasks else label)
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


def read_losses() -> dict[str, list[float]]:
    """Return the losses of each config in the file."""
    losses = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        name, *values = line.split()
        losses[name] = [float(value) for value in values]
    return losses


def main() -> None:
    """Write the file."""
    lines = []
    for name in NAMES:
        losses = " ".join(f"{loss:.9g}" for loss in train_steps(get_config(name)))
        lines.append(f"{name} {losses}\n")
        print(lines[-1], end="", flush=True)
    FILE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
