"""Models of other packages, trained from random weights on lists of one class a video.

They see ``FRAMES`` frames of a whole video, at equal distances, of ``SIZE`` x ``SIZE`` pixels, and
mirrored clips in training: AdamW, a warm-up and a cosine over a time that is given.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from mmvidformer.data.list_folders import read_groups
from mmvidformer.finetune.rows import Row, videos_of
from mmvidformer.finetune.tally import Tally
from mmvidformer.tasks.lists import read_task_lists
from mmvidformer.video.video import Video

FRAMES, SIZE, BATCH = 8, 64, 8
RATE, DECAY, WARM_UP = 5e-4, 0.05, 0.1  # AdamW; share of the time


def r2plus1d(classes: int) -> nn.Module:
    """Return torchvision's r2plus1d_18."""
    from torchvision.models.video import r2plus1d_18

    return r2plus1d_18(weights=None, num_classes=classes)


def videomae(classes: int) -> nn.Module:
    """Return HuggingFace's VideoMAE with the widths of ViT-S, for these clips."""
    from transformers import VideoMAEConfig, VideoMAEForVideoClassification

    config = VideoMAEConfig(
        image_size=SIZE,
        num_frames=FRAMES,
        hidden_size=384,
        num_attention_heads=6,
        intermediate_size=1536,
        num_labels=classes,
    )

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = VideoMAEForVideoClassification(config)

        def forward(self, clips: Tensor) -> Tensor:
            return self.model(clips.transpose(1, 2)).logits

    return Logits()


def slow(classes: int) -> nn.Module:
    """Return the slow path of SlowFast as MMAction2 has it, with 18 layers."""
    from mmaction.models.backbones import ResNet3dSlowOnly

    import mmvidformer  # noqa: F401  (repairs MMAction2)

    backbone = ResNet3dSlowOnly(
        depth=18,
        pretrained=None,
        conv1_kernel=(1, 7, 7),
        inflate=(0, 0, 1, 1),
        norm_eval=False,
    )
    backbone.init_weights()

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.fc = backbone, nn.Linear(512, classes)

        def forward(self, clips: Tensor) -> Tensor:
            return self.fc(self.backbone(clips).mean(dim=(2, 3, 4)))

    return Logits()


RIVALS: dict[str, Callable[[int], nn.Module]] = {
    "r2plus1d": r2plus1d,
    "slow": slow,
    "videomae": videomae,
}


def evaluate_rival(name: str, folder: Path, seed: int, seconds: float, record: Path) -> Tally:
    """Train a model on a folder's ``train.txt`` for a time, and test it on ``test.txt``.

    Args:
        name: Name in ``RIVALS``.
        folder: Folder of the lists.
        seed: Seed of weights and order.
        seconds: Seconds of the processor that training takes.
        record: JSON file that gets the loss of each step and the answers. If it is there, its
            answers are returned.
    """
    if record.exists():
        return Tally.read(json.loads(record.read_text("utf-8"))["tally"])
    lists = read_task_lists(str(folder), "classes")
    torch.manual_seed(seed)
    model = RIVALS[name](len(lists.classes))
    losses = train_model(model, videos_of(lists, "train"), seconds)
    model.eval()
    answers = {}
    for row in videos_of(lists, "test"):
        with torch.no_grad():
            answers[str(row.file)] = int(model(read_clips([row])).argmax()) == row.label
    tally = Tally.of(answers, read_groups(lists.root))
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"tally": tally.groups, "losses": losses}), encoding="utf-8")
    first, last = np.mean(losses[:10]), np.mean(losses[-10:])
    learned = f"{len(losses)} steps of {BATCH} videos, loss {first:.2f} to {last:.2f}"
    print(f"{name}, {learned}: {tally}", flush=True)
    return tally


def train_model(model: nn.Module, rows: Sequence[Row], seconds: float) -> list[float]:
    """Train for seconds of the processor, and return the loss of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    start, losses, order = time.process_time(), [], []
    while (share := (time.process_time() - start) / seconds) < 1:
        if len(order) < BATCH:
            order += torch.randperm(len(rows)).tolist()
        batch, order = [rows[number] for number in order[:BATCH]], order[BATCH:]
        warm = min(share / WARM_UP, 1)
        optimizer.param_groups[0]["lr"] = RATE * warm * (1 + math.cos(math.pi * share)) / 2
        clips, labels = read_clips(batch), torch.tensor([row.label for row in batch])
        mirrored = torch.rand(len(batch)) < 0.5
        clips[mirrored] = clips[mirrored].flip(-1)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(clips), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def read_clips(rows: Sequence[Row]) -> Tensor:
    """Return normalized pixels (N, 3, T, H, W) of videos."""
    clips = torch.from_numpy(np.stack([_read_frames(row.file) for row in rows]))
    return clips.permute(0, 4, 1, 2, 3).float() / 127.5 - 1


@lru_cache(maxsize=1000)
def _read_frames(path: Path) -> np.ndarray:
    """Return frames (T, H, W, 3) at equal distances."""
    video = Video.open(path)
    numbers = np.linspace(0, len(video) - 1, FRAMES).round().astype(int)
    frames = []
    for frame in video.get_batch(numbers):
        frames.append(np.asarray(Image.fromarray(frame).resize((SIZE, SIZE))))
    return np.stack(frames)
