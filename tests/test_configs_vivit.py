"""The configs of ViViT are those of its paper's tables."""

from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope

from mmvidformer import get_config
from mmvidformer.config.shipped import config_folder
from mmvidformer.registry import MODELS
from tests.tiny_configs import FRAMES, SIDE


def test_recipes_of_the_table() -> None:
    """Table 7 of arXiv, and the official configs where they differ."""
    rows = {
        "vivit_st_k400": (0.1, 30, 0.0, 0.0, None),
        "vivit_fe_k400": (0.05, 30, 0.0, 0.0, None),
        "vivit_l_fe_k400": (0.1, 30, 0.0, 0.0, None),
        "vivit/table5a/l_fe_1x3": (0.1, 30, 0.0, 0.0, None),
        "vivit_l_st_k400": (0.1, 30, 0.0, 0.0, None),
        "vivit_l_fe_k600": (0.05, 30, 0.0, 0.0, None),
        "vivit_l_fe_mit": (0.25, 10, 0.0, 0.0, None),
        "vivit_l_fe_ek100": (0.5, 50, 0.2, 0.2, 0.1),
        "vivit_l_fe_sthv2": (0.5, 35, 0.3, 0.3, 0.3),
    }
    for name, (rate, epochs, drop_path, smoothing, mixup) in rows.items():
        cfg = get_config(name)
        optimizer = cfg.optim_wrapper.optimizer
        assert (optimizer.type, optimizer.lr, optimizer.momentum) == ("SGD", rate, 0.9), name
        assert (optimizer.weight_decay, optimizer.get("nesterov", False)) == (0.0, False)
        assert cfg.optim_wrapper.clip_grad.max_norm == 1.0
        assert cfg.train_cfg.max_epochs == epochs, name
        assert cfg.auto_scale_lr.base_batch_size == 64
        assert cfg.model.backbone.get("drop_path_rate", 0.0) == drop_path, name
        assert cfg.model.cls_head.get("label_smooth_eps", 0.0) == smoothing, name
        blending = cfg.model.data_preprocessor.get("blending")
        assert (blending and blending.alpha) == mixup, name
        assert cfg.model.cls_head.average_clips == "score"
    layers = {"sthv2": (2, 20), "ek100": (2, 15)}
    for dataset, expected in layers.items():
        transforms = get_config(f"vivit_l_fe_{dataset}").model.data_preprocessor.augment
        found = [t for t in transforms if t.type.endswith("ClipRandAugment")]
        assert [(t.num_layers, t.magnitude) for t in found] == [expected]


@pytest.mark.parametrize("fps", [25, 30, 50])
def test_vivit_s_clips_are_of_25_frames_per_second(fps: int) -> None:
    """Section 4.1 and Figure 7: 4 views of 2.56 s see the whole of 10 s, 128 frames at once."""
    video = dict(total_frames=10 * fps, avg_fps=fps, start_index=0)
    for name, views, seconds in (("vivit_fe_k400", 4, 2.56), ("vivit/figure7/frames_128", 1, 10)):
        pipeline = get_config(name).test_dataloader.dataset.pipeline
        with DefaultScope.overwrite_default_scope("mmaction"):
            sample = Compose(pipeline[1:2])
        clips = sample(dict(video))["frame_inds"].reshape(views, -1) / fps
        assert clips[0, 0] < 0.1 and clips[-1].max() > 9.8
        np.testing.assert_allclose(np.ptp(clips, axis=1), seconds, atol=0.1)


@pytest.mark.parametrize("name", ["vivit_l_fe_ek100", "vivit_l_fe_sthv2"])
def test_starts_from_kinetics_as_its_header_says(name: str, tmp_path: Path) -> None:
    source, target = get_config("vivit_l_fe_k400"), get_config(name)
    depth = target.model.backbone.temporal_depth
    assert f"model.backbone.temporal_depth={depth}" in (config_folder() / f"{name}.py").read_text()
    source.merge_from_dict({"model.backbone.temporal_depth": depth})
    for cfg in (source, target):
        cfg.model.backbone.update(
            arch=dict(embed_dims=16, depth=1, num_heads=2), clip_len=FRAMES, img_size=SIDE
        )
    source.model.backbone.init_from = None
    target.merge_from_dict({"model.backbone.init_from.source": str(tmp_path / "kinetics.pth")})
    backbones = [MODELS.build(cfg.model.backbone) for cfg in (source, target)]
    state = {f"backbone.{key}": value for key, value in backbones[0].state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "kinetics.pth")
    backbones[1].init_weights()
    for key, value in backbones[1].state_dict().items():
        torch.testing.assert_close(value, state[f"backbone.{key}"], rtol=0, atol=0)
