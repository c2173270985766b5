"""Classify a video with an exported file: python examples/onnx_video.py MODEL.onnx VIDEO.

It needs av, opencv-python, numpy and onnxruntime alone. ``mmvidformer export --pixels uint8`` makes
the file (docs/export.md). Rotations in the metadata of a video are ignored.
"""

import json
import sys

import av
import cv2
import numpy as np
import onnxruntime

model_path, video_path = sys.argv[1:]
session = onnxruntime.InferenceSession(model_path)
if session.get_inputs()[0].type != "tensor(uint8)":
    sys.exit(f"{model_path} takes normalized pixels: export it with --pixels uint8")
card = json.loads(session.get_modelmeta().custom_metadata_map["mmvidformer"])
transforms = {transform["type"]: transform for transform in card["transforms"]}


def sample_frames(total, fps):
    """Frame numbers (clips, frames) of a video."""
    name = next(iter({"SampleFrames", "SpanFrames", "SegmentFrames"} & set(transforms)), None)
    if name is None:
        sys.exit(f"{model_path} takes frames otherwise than this example: {', '.join(transforms)}")
    sampler = transforms[name]
    length, clips = sampler["clip_len"], sampler["num_clips"]
    if name == "SegmentFrames":
        borders = np.linspace(0, total - 1, length + 1).round().astype(int)
        start, end = borders[:-1], borders[1:]
        return np.stack([(start + end) // 2, start, end][:clips])
    target_fps, span = sampler["target_fps"], length * sampler["frame_interval"]
    if target_fps:
        span = max(span * fps / target_fps, 1)
    elif name == "SampleFrames":
        span -= sampler["frame_interval"] - 1
    free = max(total - span, 0)
    if name == "SpanFrames":
        last = span - 1 if sampler["include_last"] else span * (1 - 1 / length)
        starts = free * np.arange(clips) / clips
        frames = starts[:, None] + np.linspace(0, last, length)
        return frames.clip(0, total - 1).astype(int)
    between = free / max(clips - 1, 1)
    between = np.floor(between) if target_fps else between
    starts = np.arange(clips) * between if clips > 1 else np.array([free // 2])
    starts = starts if target_fps else starts.round()
    steps = np.linspace(0, span - 1, length).astype(int)
    return ((starts[:, None] + steps) % total).astype(int)


def resize(frame):
    """Frame of the size that the test pipeline resizes to."""
    height, width = frame.shape[:2]
    size = transforms["Resize"]["scale"]
    if -1 in size:
        factor = max(size) / min(height, width)
        size = int(width * factor + 0.5), int(height * factor + 0.5)
    return cv2.resize(frame, size)


def crop(clip):
    """Crops of a clip (T, H, W, 3): the center, or three along the longer side."""
    name = "ThreeCrop" if "ThreeCrop" in transforms else "CenterCrop"
    size = transforms[name]["crop_size"] if name in transforms else clip.shape[1]
    high, wide = clip.shape[1] - size, clip.shape[2] - size
    if name == "CenterCrop":
        corners = [(high // 2, wide // 2)]
    else:
        top, left = (high + 1) // 2, (wide + 1) // 2
        ends = [(top, 0), (top, wide)] if wide >= high else [(0, left), (high, left)]
        corners = [*ends, (top, left)]
    return [clip[:, y : y + size, x : x + size] for y, x in corners]


with av.open(video_path) as container:
    fps = float(container.streams.video[0].average_rate)
    frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
clips = [np.stack([resize(frames[i]) for i in row]) for row in sample_frames(len(frames), fps)]
views = np.stack([view for clip in clips for view in crop(clip)]).transpose(0, 4, 1, 2, 3)
(logits,) = session.run(["logits"], {"clip": views})
output = card["outputs"]["logits"]
if output["views"] == "mean of logits":
    logits = logits.mean(axis=0, keepdims=True)
if output["activation"] == "softmax":
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)
else:
    scores = 1 / (1 + np.exp(-logits))
scores = scores.mean(axis=0)
print(output["classes"][scores.argmax()], scores.max())
