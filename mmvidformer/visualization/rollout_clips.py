"""Attention rollout of the clips of a video, as strips and as images of a video."""

from collections.abc import Iterator

import numpy as np
import torch
from mmaction.structures import ActionDataSample

from mmvidformer.apis import Recognizer, normalize
from mmvidformer.visualization.annotate import annotate_frame, prediction_bars
from mmvidformer.visualization.attention_rollout import rollout
from mmvidformer.visualization.heatmaps import HeatStrip, overlay, to_frames, to_heat


def rollout_clips(
    recognizer: Recognizer, sample: dict, name: str
) -> Iterator[tuple[HeatStrip, list[np.ndarray]]]:
    """Compute what a model attends to in each clip of a video.

    Args:
        recognizer: Recognizer with a backbone that ``rollout`` accepts.
        sample: Clips and their frame numbers, from ``recognizer.pipeline.read``.
        name: Name of the video, for the titles.

    Yields:
        A strip, and an image per frame: the frame, its heat map and the predicted classes.

    Raises:
        ValueError: If rollout is not defined for the model.
    """
    model, clips = recognizer._model, sample["inputs"]  # predictions stay optimized
    if hasattr(model, "stream"):  # its backbone gives features of each frame
        raise ValueError(f"rollout is not defined for a {type(model).__name__}")
    numbers = sample["data_samples"].frame_inds.reshape(len(clips), -1)
    # One clip at a time: a single long clip can fill the memory of a device.
    for i, clip in enumerate(clips):
        clip = normalize(model, clip[None])
        found = rollout(model.backbone, clip)
        heat = to_heat(found.tokens[0], model.backbone.embed.tubelet)
        seen = tuple(slice(n) for n in heat.shape)  # a remainder fills no tubelet
        frames = to_frames(model.data_preprocessor, clip[0])[seen]
        with torch.no_grad():
            (scored,) = model.cls_head.predict(found.features, [ActionDataSample()])
        prediction = recognizer.to_prediction(scored)
        captions = [f"frame {number}" for number in numbers[i][seen[0]]]
        title = f"{name}, clip {i + 1} of {len(clips)}"
        bars = prediction_bars(prediction, heading=f"clip {i + 1}")
        label = "share / mean share"
        legend = f"{label}: {heat.min():.2f} (blue) to {heat.max():.2f} (red)"
        images = [
            annotate_frame(frame, f"{title}, {caption}", bars, hot, legend)
            for frame, hot, caption in zip(frames, overlay(frames, heat), captions, strict=True)
        ]
        yield HeatStrip(f"{title}: {prediction.text(1)}", frames, heat, captions, label), images
