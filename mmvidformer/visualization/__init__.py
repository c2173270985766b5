"""Pictures: attention on videos, t-SNE of features, curves of costs."""

from mmvidformer.visualization.attention_rollout import Rollout, rollout
from mmvidformer.visualization.clip_pictures import HeatClip, draw_strip, write_film
from mmvidformer.visualization.features import Features, build_split, collect_features
from mmvidformer.visualization.film import Film, write_line
from mmvidformer.visualization.heat import enlarge, overlay, to_frames, to_heat
from mmvidformer.visualization.plane import check_perplexity, embed_in_plane
from mmvidformer.visualization.plots import (
    draw_bars,
    draw_classes,
    draw_costs,
    draw_growth,
    draw_minutes,
    draw_parts,
    draw_timeline,
)
from mmvidformer.visualization.recognizer import (
    build_view_pipeline,
    normalise,
    pipeline_of,
    predict,
    read_names,
    read_video,
)
from mmvidformer.visualization.state_attention import StateWeights, watch_states
from mmvidformer.visualization.state_strip import LookBack, draw_look_back
from mmvidformer.visualization.stream_page import Bars, StreamPages
from mmvidformer.visualization.window import Window

__all__ = [
    "Bars",
    "Features",
    "Film",
    "HeatClip",
    "LookBack",
    "Rollout",
    "StateWeights",
    "StreamPages",
    "Window",
    "build_split",
    "build_view_pipeline",
    "check_perplexity",
    "collect_features",
    "draw_bars",
    "draw_classes",
    "draw_costs",
    "draw_growth",
    "draw_look_back",
    "draw_minutes",
    "draw_parts",
    "draw_strip",
    "draw_timeline",
    "embed_in_plane",
    "enlarge",
    "normalise",
    "overlay",
    "pipeline_of",
    "predict",
    "read_names",
    "read_video",
    "rollout",
    "to_frames",
    "to_heat",
    "watch_states",
    "write_film",
    "write_line",
]
