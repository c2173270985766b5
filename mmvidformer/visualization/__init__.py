"""Pictures: attention rollout on videos, t-SNE of features, curves of costs."""

from mmvidformer.visualization.attention_rollout import Rollout, rollout
from mmvidformer.visualization.clip_pictures import HeatClip, draw_strip, write_film
from mmvidformer.visualization.features import Features, build_split, collect_features
from mmvidformer.visualization.film import Film, write_line
from mmvidformer.visualization.heat import enlarge, overlay, to_frames, to_heat
from mmvidformer.visualization.plane import check_perplexity, embed_in_plane
from mmvidformer.visualization.plots import draw_classes, draw_costs, draw_growth, draw_minutes
from mmvidformer.visualization.recognizer import (
    build_view_pipeline,
    load_recognizer,
    normalise,
    predict,
    read_names,
    read_video,
)

__all__ = [
    "Features",
    "Film",
    "HeatClip",
    "Rollout",
    "build_split",
    "build_view_pipeline",
    "check_perplexity",
    "collect_features",
    "draw_classes",
    "draw_costs",
    "draw_growth",
    "draw_minutes",
    "draw_strip",
    "embed_in_plane",
    "enlarge",
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
    "write_line",
]
