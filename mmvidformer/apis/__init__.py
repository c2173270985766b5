"""Inference on videos, arrays and streams."""

from mmvidformer.apis.capture import Capture, Pace
from mmvidformer.apis.class_names import read_class_names
from mmvidformer.apis.frame_pipeline import FramePipeline, StreamFrame, build_frame_pipeline
from mmvidformer.apis.recognizer import Failure, Prediction, Recognizer, video_tasks
from mmvidformer.apis.report import to_bars, to_record
from mmvidformer.apis.stream import (
    StreamPrediction,
    check_streams,
    load_stream_model,
    stream_predictions,
    stream_tasks,
)

__all__ = [
    "Capture",
    "Failure",
    "FramePipeline",
    "Pace",
    "Prediction",
    "Recognizer",
    "StreamFrame",
    "StreamPrediction",
    "build_frame_pipeline",
    "check_streams",
    "load_stream_model",
    "read_class_names",
    "stream_predictions",
    "stream_tasks",
    "to_bars",
    "to_record",
    "video_tasks",
]
