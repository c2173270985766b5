"""A trained model with its config, class names and task, fast copies, and what reads videos."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch
from mmengine.config import Config
from torch import nn

from mmvidformer.apis.factory import PUBLISHED, find_model
from mmvidformer.apis.fast import in_words, make_fast
from mmvidformer.apis.model_card import Facts
from mmvidformer.apis.names import class_names, class_tasks, known_names
from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.apis.stream import FrameRunner, StreamFrame, StreamRow
from mmvidformer.apis.together import Batches
from mmvidformer.checkpoints.download import is_address
from mmvidformer.config import config_name
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.layers.samples import Instances, Sample
from mmvidformer.models.fast.shared_frames import SharedFrames, run_together, split_stages
from mmvidformer.models.lengths import group_by_shape
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.tasks.table import task_of
from mmvidformer.video.capture import FrameSource

Loaded = TypeVar("Loaded", bound="LoadedModel")
Request = tuple[dict, SharedFrames | None]  # a sample, and the earlier frames of its video


class LoadedModel:
    """A model and what belongs to it; arguments and attributes are those of ``Recognizer``."""

    def __init__(
        self,
        config: str | Path | Config,
        checkpoint: str | None = PUBLISHED,
        device: str | torch.device | None = None,
        names: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        clips: int | None = None,
        int8: bool = False,
        static: float | None = None,
    ) -> None:
        from mmvidformer.engine.loading import load_recognizer  # loads MMAction2's models

        self.cfg, checkpoint = find_model(config, checkpoint)
        self._address = checkpoint if checkpoint == str(config) else None  # whose config was found
        tasks = class_tasks(self.cfg)
        # Checked before the model is loaded.
        self.names = class_names(tasks, names, self.cfg.get("class_names"))
        self._model = load_recognizer(self.cfg, checkpoint, device)
        if not names:
            self.names = class_names(tasks, None, known_names(self.cfg, self._model))
        self.task = task_of(self.cfg, self._model.cls_head)
        self._inexact = in_words(self._model, int8, static)
        self._fast = make_fast(self._model, int8, static)  # None: the model itself
        if int8:
            self._model = self._fast  # the weights in float32 are freed
        # Its stages; None: clips share no frames.
        self._stages = split_stages(self._fast or self._model)
        is_recurrent = hasattr(self._model, "stream")
        self.is_recurrent = is_recurrent and self.task.runs_frame_by_frame
        self._clips = clips
        self._batches: Batches | None = None  # of the samples of threads
        self._steps: Batches | None = None  # of the frames of their streams
        self._open_link: Callable[[], Any] | None = None  # to what runs the model instead
        if self.task.is_about_future:
            self.frame_runner  # noqa: B018  wrong pipelines are errors now
        elif not self.is_recurrent:
            self.pipeline  # noqa: B018

    @cached_property
    def pipeline(self) -> VideoPipeline:
        """The test pipeline, for whole videos and windows."""
        return VideoPipeline(self.cfg, self._clips)

    @cached_property
    def frame_runner(self) -> FrameRunner:
        """What runs the model on single frames; a ``UserError`` if it cannot."""
        if not self.is_recurrent:
            model = f"a {self.cfg.model.type} of {self.task.part}"
            raise UserError(f"{model} does not answer frame by frame; a RecurrentRecognizer does")
        return FrameRunner(self.cfg, self._model, self.task)

    @classmethod
    def from_pretrained(cls: type[Loaded], source: str | Path, **options: Any) -> Loaded:
        """Load a folder that ``save_pretrained`` wrote, or ``hf://ORG/NAME[@REVISION]``.

        ``options`` and errors are those of the class.
        """
        if not is_address(source) and not Path(source, "config.json").is_file():
            raise MissingFile(f"{source} is no folder with a config.json, nor hf://ORG/NAME")
        return cls(source, **options)

    def save_pretrained(
        self, folder: str | Path, facts: Facts | None = None, force: bool = False
    ) -> None:
        """Write weights, config, classes, the reading of videos and a card to a folder.

        It answers on any machine with this package (``from_pretrained``), and with transformers if
        that has such a model. The card says what ``facts`` tell of license, data and figures.

        Raises:
            FileExistsError: If a file is there already, and not ``force``.
            UserError: If the model has 8 bits, or parts of other projects.
        """
        from mmvidformer.apis.saving import save_folder

        if "int8" in self._inexact:
            raise UserError("a model with int8 is not saved; load it without, and save that")
        save_folder(self.cfg, self._model, self.names, folder, facts or Facts(), force)

    def push_to_hub(
        self, repository: str, facts: Facts | None = None, private: bool = True, force: bool = False
    ) -> str:
        """Save the model, and upload the folder to the HuggingFace hub; returns the address.

        Args:
            repository: ``ORG/NAME``.
            facts: See ``save_pretrained``.
            private: Whether only its members see a new repository.
            force: Whether it may be there already; it gets one more commit.

        Raises:
            OSError: If the hub cannot be reached, or refuses. The token is that of
                ``huggingface_hub`` (``hf auth login`` or ``HF_TOKEN``).
            UserError: If the repository is there, and not ``force``, or as ``save_pretrained``.
        """
        from mmvidformer.apis.hub import upload_folder

        with TemporaryDirectory() as parent:
            folder = Path(parent, repository.rpartition("/")[2])
            self.save_pretrained(folder, facts)
            return upload_folder(folder, repository, private, force)

    @property
    def model(self) -> nn.Module:
        """The model itself, which is used as it is from now on, since you may change it.

        With ``int8`` it is the copy that has 8 bits.
        """
        self._fast = self._stages = None
        return self._model

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self._model.parameters()).device

    @property
    def fast_model(self) -> nn.Module:
        """What runs on clips: the fast copy, or the model itself once it was asked for."""
        return self._fast or self._model

    def share_frames(self) -> Any:
        """Return what encodes the frames that samples of one video share once, if the model can."""
        if self._open_link is not None:
            return self._open_link()
        return SharedFrames(self._stages) if self._stages else None

    @contextmanager
    def gathered(self, size: float = math.inf, delay: float = 0.0) -> Iterator[None]:
        """Run the samples and the frames of streams together that threads ask for at once.

        It ends with the context. ``size`` and ``delay`` are those of ``Batches``.
        """
        samples, steps = (Batches(run, size, delay) for run in (self._run, self._run_steps))
        with samples as self._batches, steps as self._steps:
            try:
                yield
            finally:
                self._batches = self._steps = None

    def run_samples(self, samples: Sequence[dict], shared: Any = None) -> list[Sample]:
        """Run the model on samples of the pipeline; those of one shape go through it together.

        Args:
            samples: The samples. With ``shared``, one alone.
            shared: What knows the frames of earlier samples of the video (``share_frames``).
        """
        requests = [(sample, shared or self.share_frames()) for sample in samples]
        if self._open_link is not None:
            return [link.run(sample) for sample, link in requests]
        return (self._batches or self._run)(requests)

    @torch.no_grad()
    def _run(self, requests: Sequence[Request]) -> list[Sample]:
        outputs: dict[int, Sample] = {}
        for numbers in group_by_shape([sample["inputs"] for sample, _ in requests]):
            samples, shared = zip(*(requests[number] for number in numbers), strict=True)
            stacks = {key: [sample[key] for sample in samples] for key in samples[0]}
            if self._stages is None:  # or ``model`` was asked for
                results = self.fast_model.test_step(stacks)
            else:
                results = run_together(shared, stacks)
            outputs |= zip(numbers, results, strict=True)
        return [outputs[number] for number in range(len(requests))]

    def open_stream(self) -> Any:
        """Return what runs the frames of one stream (``apis.stream.StreamRow``)."""
        if self._open_link is not None:
            return self._open_link()
        row = StreamRow(lambda requests: (self._steps or self._run_steps)(requests))
        if self._steps is not None:
            self._steps.askers.add(row)
        return row

    def _run_steps(self, requests: Sequence[tuple]) -> list[tuple]:
        return self.frame_runner.step(self.fast_model, requests)

    def run_elsewhere(self, open_link: Callable[[], Any]) -> None:
        """Free the weights: ``open_link().run(sample)`` answers the samples of a video from now on.

        So it does the steps of a stream. ``share_frames`` and ``open_stream`` open a link.
        """
        self._fast = self._stages = None
        self._model.to("meta")
        self._open_link = open_link

    def frame_by_frame(
        self, source: FrameSource | Iterable[StreamFrame], restart: float | None = None
    ) -> Iterator[StreamFrame]:
        """Answer after each frame, by a recurrent model.

        The model remembers its state, whose size does not grow (in a causal transformer, if its
        past is bounded). A prediction equals that of the clip of all frames since the start. The
        state is reset when an address comes back after it went away.

        Args:
            source: A video file, camera or address, or frames, which are consumed one by one.
            restart: Interval in seconds at which the state is reset; default: never.

        Yields:
            Each frame that the model sees, with its predictions.

        Raises:
            UserError: If the model is not recurrent, or ``restart`` is not positive.
        """
        name = source.name if isinstance(source, FrameSource) else None
        outputs = self.frame_runner.run(self.open_stream().run, source, restart)
        for frame, start, scores_by_time in outputs:
            seconds = start, frame.seconds
            predictions = [
                self.task.answer_frame(scores, self.names, *seconds, source=name, ahead=ahead)
                for scores, ahead in zip(scores_by_time, self.frame_runner.times_ahead, strict=True)
            ]
            yield frame._replace(predictions=tuple(predictions))

    def predictions_of(self, output: Sample | Instances, **where: Any) -> list[Prediction]:
        """Make predictions of what the head returns.

        ``where`` holds what else a ``Prediction`` says: its source, seconds, whether it is static.
        """
        is_logits = getattr(self._model.cls_head, "average_clips", None) != "prob"
        return self.task.answers(output, self.names, is_logits, **where)

    def __repr__(self) -> str:
        optimized = ", optimized for inference" if self._fast else ""
        optimized += f", {self._inexact}" if self._fast and self._inexact else ""
        name = type(self._model.backbone).__name__
        if self._address or self.cfg.filename:
            name = f"{self._address or config_name(self.cfg.filename)} ({name})"
        return f"{name} on {self.device}{optimized}"
