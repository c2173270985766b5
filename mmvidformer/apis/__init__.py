"""Predictions and features of videos, arrays and streams."""

from mmvidformer.apis.factory import create_model
from mmvidformer.apis.features import backbone_features
from mmvidformer.apis.names import class_names, class_tasks, known_names
from mmvidformer.apis.pipeline import VideoPipeline, normalize
from mmvidformer.apis.recognizer import Recognizer
from mmvidformer.apis.stream import FramePipeline, StreamFrame
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.video.capture import Capture
