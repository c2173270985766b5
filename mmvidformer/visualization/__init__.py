"""Pictures: attention on videos, t-SNE of features, what tests and trainings logged, costs."""

from mmvidformer.visualization.attention_rollout import Rollout, rollout
from mmvidformer.visualization.clip_pictures import HeatClip, draw_strip, write_film
from mmvidformer.visualization.features import Features, build_split, collect_features
from mmvidformer.visualization.film import Film, write_line
from mmvidformer.visualization.heat import enlarge, overlay, to_frames, to_heat
from mmvidformer.visualization.plane import check_perplexity, embed_in_plane
from mmvidformer.visualization.plots import (
    draw_classes,
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
from mmvidformer.visualization.score_plots import (
    draw_class_accuracy,
    draw_confusion,
    draw_views,
)
from mmvidformer.visualization.scores import (
    Scores,
    accuracy_by_views,
    count_confusions,
    most_confused,
    read_scores,
)
from mmvidformer.visualization.state_attention import StateWeights, watch_states
from mmvidformer.visualization.state_strip import LookBack, draw_look_back
from mmvidformer.visualization.stream_page import Bars, StreamPages
from mmvidformer.visualization.training_log import TrainingLog, draw_training, read_log
from mmvidformer.visualization.window import Window

__all__ = [
    "Bars",
    "Features",
    "Film",
    "HeatClip",
    "LookBack",
    "Rollout",
    "Scores",
    "StateWeights",
    "StreamPages",
    "TrainingLog",
    "Window",
    "accuracy_by_views",
    "build_split",
    "build_view_pipeline",
    "check_perplexity",
    "collect_features",
    "count_confusions",
    "draw_class_accuracy",
    "draw_classes",
    "draw_confusion",
    "draw_look_back",
    "draw_parts",
    "draw_strip",
    "draw_timeline",
    "draw_training",
    "draw_views",
    "embed_in_plane",
    "enlarge",
    "most_confused",
    "normalise",
    "overlay",
    "pipeline_of",
    "predict",
    "read_log",
    "read_names",
    "read_scores",
    "read_video",
    "rollout",
    "to_frames",
    "to_heat",
    "watch_states",
    "write_film",
    "write_line",
]
