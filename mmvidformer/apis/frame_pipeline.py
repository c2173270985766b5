"""What a config's test pipeline does to a clip, done to one frame at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from torch import Tensor

from mmvidformer.apis.capture import Capture, Pace
from mmvidformer.config import config_scope
from mmvidformer.visualization import pipeline_of


class StreamFrame(NamedTuple):
    """A frame as the model's preprocessor takes it.

    Attributes:
        number: Number in the source, from 0.
        seconds: From the first frame of the source.
        inputs: RGB pixels, 8 bit, in the config's format: (1, 3, 1, H, W) or (1, 3, H, W).
    """

    number: int
    seconds: float
    inputs: Tensor

    @property
    def picture(self) -> np.ndarray:
        """RGB pixels (H, W, 3), 8 bit: what the model sees."""
        size = self.inputs.shape[-2:]
        return np.ascontiguousarray(self.inputs.reshape(3, *size).permute(1, 2, 0).cpu().numpy())


@dataclass(frozen=True)
class FramePipeline:
    """Transforms of single frames, and how often one is taken.

    Args:
        transforms: Those of the config after decoding.
        frame_interval: Frames of the source from a step to the next.
        time_step: Seconds from a step to the next, or None if frames are counted.
    """

    transforms: Compose
    frame_interval: int = 1
    time_step: float | None = None

    def pace(self) -> Pace:
        """A new rule by which frames are taken."""
        return Pace(self.frame_interval, self.time_step)

    def __call__(self, pixels: np.ndarray) -> Tensor:
        """Transform RGB pixels (H, W, 3), 8 bit, to the inputs of a ``StreamFrame``.

        Raises:
            ValueError: If the transforms make several views of a frame, or none.
        """
        size = pixels.shape[:2]
        sample = {
            **{"imgs": [pixels], "original_shape": size, "img_shape": size, "modality": "RGB"},
            **{"num_clips": 1, "clip_len": 1, "frame_inds": np.zeros(1, int)},
        }
        inputs = torch.as_tensor(self.transforms(sample)["inputs"])
        height, width = inputs.shape[-2:]
        if inputs.numel() != 3 * height * width:
            raise ValueError(
                f"a stream needs one view of a frame, and the test pipeline makes inputs of shape "
                f"{tuple(inputs.shape)}; it should have one crop, and FormatShape NCTHW or NCHW"
            )
        return inputs

    def read(self, source: Capture) -> Iterator[StreamFrame]:
        """Give the frames of a source that are steps of the model, transformed.

        Raises:
            ValueError: If a file has fewer frames a second than there are steps.
        """
        rate = self.pace().rate(source.fps)
        if not source.is_camera and rate > source.fps + 1e-6:
            raise ValueError(
                f"{source.source} has {source.fps:g} frames a second, and the config takes {rate:g}"
            )
        for number, seconds, pixels in source.frames(self.pace()):
            yield StreamFrame(number, seconds, self(pixels))


def build_frame_pipeline(cfg: Config) -> FramePipeline:
    """Take from a config's test pipeline (validation, where it has none) what concerns frames.

    All that follows decoding is kept. How often a frame is taken is ``time_step`` of
    ``ObserveBefore``, or ``frame_interval`` of ``ObserveFirst`` or ``SampleFrames``; a part that is
    observed (``ratio``) does not count.

    Args:
        cfg: A recognition config.

    Raises:
        ValueError: If the config has no such pipeline, or it decodes or samples no frames.
    """
    settings = pipeline_of(cfg, ("test", "val"))
    with config_scope(cfg):
        steps = Compose(settings).transforms
    names = [type(step).__name__ for step in steps]
    decoders = [i for i, name in enumerate(names) if name.endswith("Decode")]
    if not decoders or getattr(steps[decoders[-1]], "feature_shape", None):
        raise ValueError(f"the test pipeline decodes no images: {', '.join(names)}")
    cut = decoders[-1] + 1
    for step in steps[:cut]:
        time_step = getattr(step, "time_step", None)
        interval = getattr(step, "frame_interval", None)
        if time_step or interval:
            steps[-1].meta_keys = ()  # they are of clips
            return FramePipeline(Compose(steps[cut:]), interval or 1, time_step)
    raise ValueError(
        f"nothing in the test pipeline tells how often a frame is taken: {', '.join(names)}; "
        "ObserveFirst, ObserveBefore and SampleFrames do"
    )
