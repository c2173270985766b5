"""COCO's JSON of boxes, as tools for pictures read it."""

import json
from pathlib import Path
from typing import Any

from mmvidformer.sinks.base import SinkOptions
from mmvidformer.sinks.videos import SinkBox, SinkVideo, VideoSink
from mmvidformer.storage.names import spell
from mmvidformer.tasks.prediction import Prediction


class Coco(VideoSink):
    """Boxes of frames, with scores: ``images`` are the frames with boxes, ``categories`` classes.

    ``videos`` and ``video_id``, ``frame_id`` and ``track_id`` are as in TAO and YouTube-VIS.
    ``file_name`` of a frame is what a folder of frames has by convention: ``VIDEO/000012.jpg``.

    Raises:
        UserError: If a prediction has no box.
    """

    parts = ("boxes",)

    def __init__(self, target: Path, options: SinkOptions) -> None:
        super().__init__()
        self._file = self.open_rows(target, options)
        self._videos: list[dict[str, Any]] = []
        self._images: list[dict[str, Any]] = []
        self._categories: dict[str, int] = {}
        self._count = self._track_count = 0
        self._file.write('{"annotations": [')

    def begin_video(self, video: SinkVideo, prediction: Prediction | None) -> None:
        """Number a video, and the classes."""
        for name in next(iter(prediction.names.values())) if prediction is not None else ():
            self._categories.setdefault(name, len(self._categories) + 1)
        size = dict(height=video.height, width=video.width)
        number = len(self._videos) + 1
        self._videos.append(dict(id=number, name=spell(video.path), **size))

    def end_video(self, video: SinkVideo) -> None:
        """Write the boxes of a video."""
        size = dict(height=video.height, width=video.width)
        tracks: dict[str, int] = {}  # of this video; numbers are unique in the file, as TAO's
        last_frame = None
        for box in video.boxes:
            if box.frame != last_frame:
                image: dict[str, Any] = dict(id=len(self._images) + 1, **size)
                image["file_name"] = f"{spell(Path(video.path).stem)}/{box.frame:06}.jpg"
                image |= dict(video_id=len(self._videos), frame_id=box.frame)
                self._images.append(image)
                last_frame = box.frame
            for label in box.labels:
                self._write_box(box, label, video, tracks)

    def finish(self) -> None:
        """Write pictures, classes and videos."""
        super().finish()
        categories = [dict(id=number, name=name) for name, number in self._categories.items()]
        lists = dict(images=self._images, categories=categories, videos=self._videos)
        parts = [f'"{name}": {json.dumps(rows)}' for name, rows in lists.items()]
        self._file.write("\n],\n" + ",\n".join(parts) + "}\n")

    def _write_box(
        self, box: SinkBox, label: str, video: SinkVideo, tracks: dict[str, int]
    ) -> None:
        left, right = (round(share * video.width, 2) for share in box.corners[::2])
        top, bottom = (round(share * video.height, 2) for share in box.corners[1::2])
        width, height = round(right - left, 2), round(bottom - top, 2)
        self._count += 1
        annotation = dict(
            id=self._count,
            image_id=len(self._images),
            category_id=self._categories[label],
            bbox=[left, top, width, height],
            area=round(width * height, 4),
            iscrowd=0,
            score=box.score,
        )
        if box.track:
            if box.track not in tracks:
                self._track_count += 1
            annotation["track_id"] = tracks.setdefault(box.track, self._track_count)
        separator = ",\n" if self._count > 1 else "\n"
        self._file.write(separator + json.dumps(annotation))
