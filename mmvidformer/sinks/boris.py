"""Projects of BORIS, which somebody corrects there."""

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from mmvidformer.sinks.base import SinkOptions
from mmvidformer.sinks.videos import PARTS_OF_TIME, FoundSegment, SinkVideo, VideoSink
from mmvidformer.storage.names import name_from, spell
from mmvidformer.tasks.prediction import Prediction

POINT, STATE = "Point event", "State event"
# What BORIS 8 expects of each behavior, observation and project, besides what is written here.
BEHAVIOR = {"key": "", "description": "", "category": "", "modifiers": {}, "excluded": ""}
BEHAVIOR |= {"coding map": ""}
OBSERVATION = {
    "type": "MEDIA",
    "description": "",
    "time offset": 0.0,
    "observation time interval": [0, 0],
    "independent_variables": {},
    "visualize_spectrogram": False,
    "visualize_waveform": False,
    "close_behaviors_between_videos": False,
    "scan_sampling_time": 0,
}
PROJECT = {
    "time_format": "hh:mm:ss",
    "project_name": "mmvidformer",
    "project_description": "",
    "project_format_version": "7.0",
    "subjects_conf": {},
    "independent_variables": {},
    "behavioral_categories": [],
    "behavioral_categories_config": {},
    "coding_map": {},
    "behaviors_coding_map": [],
    "converters": {},
}


class Boris(VideoSink):
    """An observation for each video: segments are states, moments are points.

    The comment of an event is its score. Paths of videos are relative to the folder of the file.
    """

    parts, needs_parts = PARTS_OF_TIME, True

    def __init__(self, target: Path, options: SinkOptions) -> None:
        super().__init__()
        self.target = target
        self._file = self.open_rows(target, options)
        self._date = datetime.now().isoformat(timespec="seconds")
        self._behaviors: dict[str, str] = {}  # type of each
        self._count = 0
        self._file.write('{"observations": {')

    def begin_video(self, video: SinkVideo, prediction: Prediction | None) -> None:
        """Note the classes."""
        for names in prediction.names.values() if prediction is not None else ():
            for name in names:
                self._behaviors.setdefault(name, STATE)

    def end_video(self, video: SinkVideo) -> None:
        """Write the observation of a video."""
        events: list[list[Any]] = []
        for label, start, end, score in FoundSegment.merge(video.segments):
            events.append([round(start, 3), "", label, "", f"{score:.3f}"])
            if end > start:
                events.append([round(end, 3), "", label, "", ""])
            else:
                self._behaviors[label] = POINT
        events.sort(key=lambda event: event[0])
        name = self._path(video.path)
        facts = _media_info(name, video)
        observation = {**OBSERVATION, "date": self._date, "file": {"1": [name]}}
        observation |= {"events": events, "media_info": facts}
        self._count += 1
        separator = ",\n" if self._count > 1 else "\n"
        key = json.dumps(f"{self._count} {Path(name).stem}")
        self._file.write(f"{separator}{key}: {json.dumps(observation)}")

    def finish(self) -> None:
        """Write the behaviors."""
        super().finish()
        behaviors = {
            str(number): {**BEHAVIOR, "type": behavior_type, "code": code}
            for number, (code, behavior_type) in enumerate(self._behaviors.items())
        }
        project = {**PROJECT, "project_date": self._date, "behaviors_conf": behaviors}
        self._file.write("\n},\n" + json.dumps(project)[1:] + "\n")

    def _path(self, path: str) -> str:
        folder, place = os.path.abspath(self.target.parent), os.path.abspath(path)
        inside = Path(place).is_relative_to(folder)
        return spell(name_from(folder, place) if inside else place)


def _media_info(name: str, video: SinkVideo) -> Mapping[str, Any]:
    return {
        "length": {name: round(video.frames.duration, 3)},
        "fps": {name: round(video.frames.get_avg_fps(), 3)},
        "hasVideo": {name: True},
        "hasAudio": {name: False},
        "offset": {"1": 0.0},
    }
