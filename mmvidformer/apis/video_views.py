"""What a config's test pipeline makes of a file, a part of a file, or an array."""

import sys
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mmengine.config import Config
from mmengine.dataset import Compose

from mmvidformer.config import config_scope, type_name
from mmvidformer.visualization import pipeline_of

WHOLE = (0, sys.maxsize)  # LimitToSegment is told to take the whole file
Source = str | Path | np.ndarray


@dataclass
class Opened:
    """A source that is ready to be sampled, more than once.

    Attributes:
        source: The file or array.
        sample: What MMAction2's transforms know of it after opening.
    """

    source: Source
    sample: dict

    @property
    def fps(self) -> float | None:
        """Frames a second, where known."""
        return self.sample.get("avg_fps")

    @property
    def frames(self) -> int:
        """Number of frames."""
        return self.sample["total_frames"]


class VideoViews:
    """A config's test pipeline (validation, where it has none), for files and arrays.

    Args:
        cfg: A recognition config that reads video files.

    Raises:
        ValueError: If it has no such pipeline, or it opens no video files.
    """

    def __init__(self, cfg: Config) -> None:
        steps = pipeline_of(cfg, ("test", "val"))
        names = [type_name(step) for step in steps]
        opening = [i for i, name in enumerate(names) if name.endswith("Init")]
        decoding = [i for i, name in enumerate(names) if name.endswith("Decode")]
        if len(opening) != 1 or len(decoding) != 1:
            raise ValueError(f"the test pipeline opens no video files: {', '.join(names)}")
        keys = steps[-1].get("meta_keys", ())
        steps[-1]["meta_keys"] = (*keys, "frame_inds")
        from_array = deepcopy(steps)
        from_array[decoding[0]] = {"type": "ArrayDecode"}
        start = opening[0] + 1
        limit = [] if "LimitToSegment" in names else [{"type": "mmvidformer.LimitToSegment"}]
        with config_scope(cfg):
            self._open = Compose(steps[:start])
            self._rest = Compose([*limit, *steps[start:]])
            self._from_array = Compose([*limit, *from_array[start:]])

    def open(self, source: Source, fps: float | None = None) -> Opened:
        """Open a video file, or take an array of frames.

        Args:
            source: Path, or RGB frames (T, H, W, 3), 8 bit.
            fps: Frames a second of an array.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it can't be read as a video.
        """
        sample = {"label": -1, "start_index": 0, "modality": "RGB"}
        if isinstance(source, np.ndarray):
            if source.ndim != 4 or source.shape[-1] != 3 or source.dtype != np.uint8:
                raise ValueError(
                    "an array holds RGB frames (T, H, W, 3) of type uint8; got "
                    f"{source.shape} of {source.dtype}"
                )
            if not len(source):
                raise ValueError("the array has no frames")
            sample.update(array=source, total_frames=len(source))
            return Opened(source, sample if fps is None else {**sample, "avg_fps": fps})
        if not Path(source).is_file():
            raise FileNotFoundError(f"there is no video {source}")
        try:
            opened = self._open({**sample, "filename": str(source)})
        except Exception as error:  # decord raises errors of several kinds of its own
            raise ValueError(f"{source} cannot be opened as a video: {_line(error)}") from error
        if not opened["total_frames"]:
            raise ValueError(f"{source} has no frames")
        return Opened(source, opened)

    def read(self, video: Opened, segment: Sequence[int] = WHOLE) -> dict:
        """Sample and transform a video, or the part from one frame to another (included).

        Returns:
            ``inputs`` (views, C, T, H, W) and ``data_samples``, as MMAction2's data sets give them.

        Raises:
            ValueError: If it can't be decoded or transformed.
        """
        steps = self._from_array if isinstance(video.source, np.ndarray) else self._rest
        try:
            return steps({**video.sample, "segment": tuple(segment)})
        except Exception as error:
            name = "the array" if isinstance(video.source, np.ndarray) else video.source
            raise ValueError(
                f"{name} cannot be read by the test pipeline: {_line(error)}"
            ) from error


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:160]
