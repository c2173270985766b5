"""Answers for boxes: those that are given, and those of persons that a detector finds."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mmvidformer.apis.detector import Person, load_detector
from mmvidformer.apis.loaded_model import LoadedModel
from mmvidformer.apis.part_clock import without_gaps
from mmvidformer.apis.persons import Moment, StreamPersons, find_persons, stated_persons
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import Sample
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.tasks.stated_boxes import StatedBoxes
from mmvidformer.video.capture import FrameSource


class BoxAnswers(LoadedModel):
    """What a recognizer of boxes (``BoxesHead``) answers."""

    def boxes(
        self, video: str | Path, seconds: float, boxes: Sequence[Sequence[float]]
    ) -> list[Prediction]:
        """Classify boxes at a moment of a video, by a model of boxes (``BoxesHead``).

        Args:
            video: Path.
            seconds: The moment.
            boxes: Left, top, right and bottom of each, in shares of width and height.

        Raises:
            FileNotFoundError: If the file does not exist.
            UserError: If the video cannot be read, its frame rate is unknown, or the model is
                none of boxes.
        """
        self._check_boxes()
        opened = self.pipeline.open(video)
        persons = [Person(tuple(map(float, box))) for box in boxes]
        return self._answer_moment(opened, str(video), Moment(seconds, persons))

    def persons(
        self,
        video: str | Path,
        rate: float | None = None,
        track: bool = False,
        cuts: str | None = None,
        stated: Sequence[StatedBoxes] | None = None,
    ) -> Iterator[Prediction]:
        """Find persons at regular times of a video, and classify their boxes, as ``boxes``.

        The first time the weights of the detector are downloaded (``apis.detector``).

        Args:
            video: Path.
            rate: Times a second, at most those of the frames; default: 1, with ``track`` 5.
            track: Whether to number the persons (``apis.tracks``), for ``Prediction.track``. No
                clip crosses a cut then.
            cuts: How cuts are found, where tracks end; see ``timeline``.
            stated: Their boxes, which are then not looked for. Stated tracks are kept.

        Raises:
            MissingPackage: If the package that follows persons is not installed.
            UserError: As ``boxes``; or if ``rate`` is not positive.
        """
        self._check_boxes()
        opened = self.pipeline.open(video)
        if stated is None:
            moments = find_persons(opened, load_detector(self.device), rate, track, cuts)
        else:
            moments = stated_persons(opened, stated, track, cuts)
        for moment in moments:
            yield from self._answer_moment(opened, str(video), moment)

    def stream_persons(
        self,
        source: FrameSource | Iterable[np.ndarray],
        fps: float | None = None,
        rate: float | None = None,
        track: bool = False,
        cuts: str | None = None,
    ) -> Iterator[Prediction]:
        """Find persons while frames come in, and classify their boxes half a clip later.

        Answers are those of ``persons`` for a file of the frames. Arguments are those of ``stream``
        and ``persons``. Nobody is followed over a gap of a camera or an address.
        """
        self._check_boxes()
        has_times = isinstance(source, FrameSource)
        fps = source.fps if has_times else fps
        if fps is None:
            raise UserError("the frame rate of the frames is unknown, set fps")
        around = math.ceil(self.pipeline.span(fps) / 2) + 1
        finder = StreamPersons(load_detector(self.device), fps, rate, track, around)
        reader, name = self._part_reader(), source.name if has_times else None
        for part in without_gaps(source) if has_times else [source]:
            for moment, frames, number in finder.find(part, cuts):
                boxes = [person.box for person in moment.persons]
                output = reader.boxes_in(frames, number, fps, boxes)
                seconds = part.seconds(moment.seconds) if has_times else moment.seconds
                yield from self._name_persons(output, name, moment._replace(seconds=seconds))

    def _check_boxes(self) -> None:
        if not self.task.needs_boxes:
            raise UserError(f"the model is about {self.task.part}, not about boxes")

    def _answer_moment(self, opened: dict, name: str, moment: Moment) -> list[Prediction]:
        """Classify the boxes at a moment of an opened video."""
        seconds, persons, shot = moment
        boxes = [person.box for person in persons]
        output = self._part_reader().boxes_at(opened, seconds, boxes, shot)
        return self._name_persons(output, name, moment)

    def _name_persons(self, output: Sample, name: str | None, moment: Moment) -> list[Prediction]:
        seconds, persons, _ = moment
        predictions = self._answers(output, source=name, seconds=(seconds, seconds))
        return [  # as they were given, not as the pipeline rounds them
            replace(prediction, box=person.box, track=person.track)
            for prediction, person in zip(predictions, persons, strict=True)
        ]
