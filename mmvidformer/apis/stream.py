"""Predictions of a recurrent model as frames come in, with constant memory and time per frame."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from mmengine.config import Config
from torch import Tensor

from mmvidformer.apis.factory import LoadedModel
from mmvidformer.apis.pipeline import FramePipeline, StreamFrame, normalize
from mmvidformer.apis.predictions import to_prediction
from mmvidformer.video.capture import Capture


class StreamRecognizer(LoadedModel):
    """A trained recurrent model (HORST or a causal transformer) that takes frames one by one.

    A model of early recognition predicts the class of the video so far, a model of anticipation
    the action, verb and noun that come next.

    Arguments and errors are those of ``Recognizer``.

    Raises:
        ValueError: If the model is not recurrent, or does not read frames.
    """

    def __init__(
        self,
        config: str | Path | Config,
        checkpoint: str | None,
        device: str | torch.device | None = None,
        names: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
    ) -> None:
        super().__init__(config, checkpoint, device, names)
        if not hasattr(self._model, "stream"):
            raise ValueError(f"a stream needs a RecurrentRecognizer, got {self.cfg.model.type}")
        if self.over in ("segments", "boxes"):
            what = f"a model of {self.over} does not answer"
            raise ValueError(f"{what} frame by frame; mmvidformer demo")
        self.pipeline = FramePipeline(self.cfg)
        self._ahead: list[int] = []  # steps, for the classifier that names them
        if self.cfg.model.cls_head.get("classifier") == "unrolling":
            self._ahead = list(range(self._model.cls_head.times, 0, -1))
            if self.pipeline.time_step is None:
                raise ValueError("unrolling needs a test pipeline with ObserveBefore")

    def __call__(
        self, source: Capture | Iterable[StreamFrame], restart: float | None = None
    ) -> Iterator[StreamFrame]:
        """Predict after each frame.

        The model remembers its state, whose size does not grow (in a causal transformer, if its
        past is bounded). A prediction equals that of the clip of all frames since the start. The
        state is reset when an address comes back after it went away.

        Args:
            source: A video file, camera or address, or frames, which are consumed one by one.
            restart: Interval in seconds at which the state is reset; default: never.

        Yields:
            Each frame with its predictions.

        Raises:
            ValueError: If ``restart`` is not positive.
        """
        if restart is not None and restart <= 0:
            raise ValueError(f"restart must be positive, got {restart} s")
        states, start, last = None, None, -1
        for frame in self.pipeline.read(source) if isinstance(source, Capture) else source:
            cut = any(last < number <= frame.number for number in getattr(source, "cuts", ()))
            if start is None or cut or restart and frame.seconds - start > restart - 1e-6:
                states, start = None, frame.seconds
            last = frame.number
            with torch.no_grad():
                clip = normalize(self._model, frame.inputs)
                clip = clip.reshape(1, -1, *clip.shape[-2:])
                output, states = (self._fast or self._model).stream(clip, states)
                logits = self._classify(output)
            head, where = self._model.cls_head, dict(logits=True, seconds=(start, frame.seconds))
            predictions = []
            for i, steps in enumerate(self._ahead or [None]):
                scores = {task: rows[i] for task, rows in logits.items()}
                ahead = steps and steps * self.pipeline.time_step
                predictions.append(to_prediction(scores, self.names, head, ahead=ahead, **where))
            yield frame._replace(predictions=tuple(predictions))

    def _classify(self, output: tuple) -> dict[str, Tensor]:
        """Logits (times ahead, classes) of each task."""
        if not self._anticipates:
            return {"class": self._model.cls_head(output).flatten(0, -2)}
        if self._ahead:
            output = type(output)(*(x.expand(-1, len(self._ahead), -1, -1, -1) for x in output))
        logits = self._model.cls_head(output, ahead=self._ahead or [1])
        return {task: rows[0] for task, rows in logits.items()}
