"""Predictions of a recurrent model as frames come in, at constant memory and time a frame."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from mmengine.config import Config
from torch import Tensor

from mmvidformer.apis.frame_pipeline import StreamFrame
from mmvidformer.config import config_scope
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.models.horst import HorstOutput, StoredMaps
from mmvidformer.models.horst.classifiers import UnrollingClassifier
from mmvidformer.models.horst.heads import AnticipationHead, LastStepHead
from mmvidformer.models.horst.layer import State
from mmvidformer.models.horst.recognizer import RecurrentRecognizer
from mmvidformer.registry import MODELS
from mmvidformer.visualization import normalise


@dataclass(frozen=True)
class StreamPrediction:
    """What a model says when it has seen a frame and those before.

    Attributes:
        frame: The frame.
        ahead: How many steps ahead each row of the scores looks; empty where the model names no
            time, and there is one row.
        scores: Probabilities (rows, classes) by task: ``'class'`` of the clip for early
            recognition, ``'action'``, ``'verb'`` and ``'noun'`` that come next for anticipation.
    """

    frame: StreamFrame
    ahead: tuple[int, ...]
    scores: Mapping[str, Tensor]

    def top(self, task: str, k: int, row: int = -1) -> list[tuple[int, float]]:
        """The k likeliest classes of a row with their probabilities; fewer if there are fewer."""
        scores = self.scores[task][row]
        best = scores.topk(min(k, len(scores)))
        return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))


def check_streams(cfg: Config) -> None:
    """Refuse a config whose model cannot take frames one by one.

    Raises:
        ValueError: If it is no ``RecurrentRecognizer`` on frames.
    """
    with config_scope(cfg):
        kind = MODELS.get(cfg.model.type) if isinstance(cfg.model.type, str) else cfg.model.type
        frames = cfg.model.get("backbone", {}).get("type")
        stored = (
            frames is StoredMaps or isinstance(frames, str) and MODELS.get(frames) is StoredMaps
        )
    if not (isinstance(kind, type) and issubclass(kind, RecurrentRecognizer)):
        raise ValueError(
            f"a stream needs a recurrent model, mmvidformer.RecurrentRecognizer (horst_* configs); "
            f"the config has {cfg.model.type}"
        )
    if stored:
        raise ValueError("a stream needs a network on frames; the config reads stored maps")


def load_stream_model(
    cfg: Config, checkpoint: str, device: str | torch.device = "cpu"
) -> RecurrentRecognizer:
    """Build the recurrent recogniser of a config with the weights of a checkpoint.

    Args:
        cfg: A config such as ``horst_early_motion`` or ``horst_ek100``.
        checkpoint: File or address, as MMEngine takes it.
        device: Where to put the model.

    Returns:
        The model in evaluation mode.

    Raises:
        FileNotFoundError: If there is no such checkpoint.
        ValueError: If the model is not recurrent, or the weights are of another one.
    """
    check_streams(cfg)
    return load_recognizer(cfg, checkpoint, device)


def stream_tasks(model: RecurrentRecognizer) -> dict[str, int]:
    """Tasks of a model's predictions and their numbers of classes.

    Raises:
        TypeError: If the head is not one of HORST's.
    """
    head = model.cls_head
    if isinstance(head, AnticipationHead):
        return {task: head.tasks[task] for task in ("action", "verb", "noun")}
    if isinstance(head, LastStepHead):
        return {"class": head.num_classes}
    raise TypeError(f"no stream of predictions is known for the head {type(head).__name__}")


def stream_predictions(
    model: RecurrentRecognizer, frames: Iterable[StreamFrame], restart: int | None = None
) -> Iterator[StreamPrediction]:
    """Predict after each frame.

    What is remembered is the model's state, whose size does not grow. A prediction is that of the
    clip of all frames since the start.

    Args:
        model: In evaluation mode.
        frames: From ``FramePipeline.read``, or made of any pixels; consumed one by one.
        restart: Forget all after so many frames; default: never.

    Yields:
        A prediction for each frame, on the CPU.

    Raises:
        TypeError: If the head is not one of HORST's.
        ValueError: If ``restart`` is below 1.
    """
    if restart is not None and restart < 1:
        raise ValueError(f"restart must be at least 1 frame, got {restart}")
    stream_tasks(model)
    states: Sequence[State] | None = None
    for count, frame in enumerate(frames):
        if restart is not None and count % restart == 0:
            states = None
        prediction, states = _step(model, frame, states)
        yield prediction


@torch.no_grad()
def _step(
    model: RecurrentRecognizer, frame: StreamFrame, states: Sequence[State] | None
) -> tuple[StreamPrediction, tuple[State, ...]]:
    clip = normalise(model, frame.inputs)
    output, states = model.stream(clip.reshape(1, *clip.shape[1:2], *clip.shape[-2:]), states)
    head = model.cls_head
    ahead: tuple[int, ...] = ()
    if isinstance(head, LastStepHead):
        logits = {"class": head(output)}
    elif isinstance(head.classifier, UnrollingClassifier):
        ahead = tuple(range(head.times, 0, -1))
        rows = HorstOutput(*(part.expand(-1, len(ahead), -1, -1, -1) for part in output))
        logits = {task: x[0] for task, x in head(rows, ahead=ahead).items()}
    else:
        logits = {task: x[0] for task, x in head(output, ahead=[1]).items()}
    scores = {task: logits[task].float().softmax(dim=1).cpu() for task in stream_tasks(model)}
    return StreamPrediction(frame, ahead, scores), states
