"""Pictures: attention rollout on videos, t-SNE of features, cost curves."""

from mmvidformer.visualization.clip_pictures import HeatClip, draw_strip, write_film
from mmvidformer.visualization.heat import overlay, to_frames, to_heat
from mmvidformer.visualization.recognizer import (
    build_view_pipeline,
    load_recognizer,
    normalise,
    predict,
    read_names,
    read_video,
)
from mmvidformer.visualization.rollout import Rollout, rollout

__all__ = [
    "HeatClip",
    "Rollout",
    "build_view_pipeline",
    "draw_strip",
    "load_recognizer",
    "normalise",
    "overlay",
    "predict",
    "read_names",
    "read_video",
    "rollout",
    "to_frames",
    "to_heat",
    "write_film",
]
