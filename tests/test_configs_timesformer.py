"""The configs of TimeSformer are those of its paper's tables."""

import itertools

from mmvidformer import get_config
from tests.tiny_configs import sampler


def test_timesformer_recipes() -> None:
    """Section 4 and appendix A; frames, interval and crop of each variant, and its classes."""
    data = {"k400": 400, "k600": 600, "sthv2": 174}
    variants = {"b": (8, 32, 224), "hr": (16, 16, 448), "l": (96, 4, 224)}
    for (variant, (frames, interval, crop)), (dataset, classes) in itertools.product(
        variants.items(), data.items()
    ):
        cfg = get_config(f"timesformer_{variant}_{dataset}")
        if dataset == "sthv2":  # a frame from each part; the official L has 64 frames
            frames, interval = {"l": 64}.get(variant, frames), None
        for pipeline in (cfg.train_pipeline, cfg.val_pipeline, cfg.test_pipeline):
            found = sampler(pipeline)
            assert (found.clip_len, found.get("frame_interval")) == (frames, interval)
            assert found.get("num_clips", 1) == 1
        rescale = cfg.train_pipeline[3]
        assert rescale.scale_range == {224: (256, 320), 448: (448, 512)}[crop]
        assert rescale.type.endswith("InverseRescale") == (dataset == "sthv2")
        flips = cfg.model.data_preprocessor.get("augment")
        assert bool(flips) == (dataset != "sthv2")
        assert (cfg.test_pipeline[3].scale, cfg.test_pipeline[4].type) == (
            (-1, crop),
            "mmvidformer.ThreeCrop",
        )
        assert cfg.model.backbone.img_size == crop
        assert cfg.model.cls_head.num_classes == classes
        source = cfg.model.backbone.init_from.source
        assert source == "timm:vit_base_patch16_224.orig_in21k_ft_in1k"
        optimizer = cfg.optim_wrapper.optimizer
        assert (optimizer.lr, optimizer.momentum, optimizer.nesterov) == (0.005, 0.9, True)
        assert (optimizer.weight_decay, cfg.optim_wrapper.get("clip_grad")) == (1e-4, None)
        assert cfg.model.cls_head.average_clips == "score"
    for frames in (8, 32, 64, 96):
        cfg = get_config(f"timesformer/table8/frames_{frames}")
        for split in ("train", "test"):
            found = sampler(cfg[f"{split}_dataloader"].dataset.pipeline)
            assert (found.clip_len, found.frame_interval) == (frames, 32)
        assert cfg.model.cls_head.num_classes == 1059
