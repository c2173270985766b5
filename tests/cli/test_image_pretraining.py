"""Pretraining on a folder of images, from end to end, and a video model that starts from it."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer import get_config
from mmvidformer.registry import MODELS

ARCH = dict(embed_dims=32, depth=2, num_heads=2)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of noise over a colour; the validation set lacks the first."""
    root = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for split, classes in (("train", (0, 1, 2)), ("val", (1, 2))):
        for label in classes:
            folder = root / split / f"class_{label}"
            folder.mkdir(parents=True)
            for number in range(4):
                picture = rng.integers(0, 100, (40, 48, 3), dtype=np.uint8)
                picture[..., label] += 120
                cv2.imwrite(str(folder / f"{number}.png"), picture)
    return root


def small(cfg: Config, images: Path) -> Config:
    """The shipped config with a tiny model and images of 32 pixels, trained for 2 epochs."""
    cfg.model.backbone.update(arch=ARCH, img_size=32)
    cfg.model.cls_head.update(num_classes=3, in_channels=32, topk=(1,))
    for blending in cfg.model.data_preprocessor.blending.augments:
        blending.num_classes = 3
    for part in ("train", "val", "test"):
        loader = cfg[f"{part}_dataloader"]
        loader.update(num_workers=0, persistent_workers=False, timeout=0, batch_size=4)
        loader.dataset.root = str(images / ("train" if part == "train" else "val"))
        for transform in loader.dataset.pipeline:
            if "scale" in transform:
                transform.scale = (32, 32)
            if "crop_size" in transform:
                transform.crop_size = 32
        if part != "train":
            loader.dataset.classes_from = str(images / "train")
    cfg.train_cfg.update(max_epochs=2, val_interval=1)
    cfg.optim_wrapper.optimizer.lr = 1e-2
    return cfg


@pytest.mark.slow
def test_trains_on_a_folder_and_starts_a_video_model(
    train, test, weights, images: Path, tmp_path: Path
) -> None:
    config = tmp_path / "image.py"
    small(get_config("feature_fixation_image"), images).dump(config)
    train([str(config), "--work-dir", str(tmp_path / "run"), "--seed", "0"])
    checkpoint = tmp_path / "run" / "epoch_2.pth"
    test([str(config), str(checkpoint), "--work-dir", str(tmp_path / "test")])
    assert list((tmp_path / "test").glob("test_*.json"))

    cfg = get_config("feature_fixation_sthv2")
    cfg.model.backbone.update(arch=ARCH, img_size=48, clip_len=4, init_from=str(checkpoint))
    with DefaultScope.overwrite_default_scope("mmaction"):
        video = MODELS.build(cfg.model.backbone)
    before = {name: value.clone() for name, value in video.state_dict().items()}
    video.init_weights()
    image = {k.removeprefix("backbone."): v for k, v in weights(checkpoint).items()}
    for name, value in video.state_dict().items():
        source = image.get(name, image.get(name.replace(".sublayers.time.", ".sublayers.space.")))
        if source is None:  # the table over time
            assert name == "encoders.0.pos_embed.t"
            assert (value == before[name]).all()
        else:
            assert (value == source).all(), name
    changed = [name for name, value in video.state_dict().items() if (value != before[name]).any()]
    assert "encoders.0.blocks.1.sublayers.time.attn.prepare.fixation.gates.qk.weight" in changed
