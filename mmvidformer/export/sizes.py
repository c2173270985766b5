"""Sizes of a config's inputs."""

from mmengine.config import Config

from mmvidformer.analysis.complexity import input_shape

clip_size = input_shape


def frame_size(cfg: Config) -> tuple[int, int, int]:
    """Size (3, H, W) of the frames that a config's test pipeline makes.

    Raises:
        ValueError: If no transform of it sets one.
    """
    for step in reversed(cfg.test_dataloader.dataset.pipeline):
        if "crop_size" in step:
            side = step["crop_size"]
            return (3, side, side) if isinstance(side, int) else (3, *side)
        if "scale" in step and not step.get("keep_ratio", True):
            width, height = step["scale"]
            return 3, height, width
    raise ValueError("no transform of the test pipeline sets the size of a frame; give it")
