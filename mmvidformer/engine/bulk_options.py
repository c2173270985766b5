"""Options of the commands that answer for many videos."""

from dataclasses import dataclass
from typing import ClassVar

from mmvidformer.engine.arguments import not_negative, positive, positive_number
from mmvidformer.engine.model_options import CHECKPOINT, CONFIG, ClassOptions, ModelOptions
from mmvidformer.engine.options import argument, flag, option
from mmvidformer.engine.part_options import PartOptions, check_needs


@dataclass(frozen=True)
class InputOptions(ModelOptions):
    """A model, its videos, and where the results go."""

    config: str = argument(CONFIG, metavar="MODEL")
    checkpoint: str | None = argument(CHECKPOINT, metavar="CHECKPOINT", nargs="?")
    input: str = argument(
        "folder of videos, list of MMAction2 (.txt), csv file with a column video, folder of "
        "shards, or a video; or an address of them, such as s3://BUCKET/FOLDER",
        metavar="INPUT",
    )
    out: str = option(
        "folder or address of the results", None, False, required=True, metavar="FOLDER"
    )


@dataclass(frozen=True)
class BulkOptions(InputOptions):
    """How many videos are answered."""

    title: ClassVar = "many videos"
    batch: int = option("videos that the model sees at once", 4, False, type=positive)
    part: int = option(
        "most videos of a Parquet file, which is written as a whole, and each minute",
        256,
        False,
        type=positive,
    )
    workers: int | None = option(
        "processes that read videos for a model (default: 4, at most the number of cores; 1 on Ray "
        "without GPUs); 0: the model's process, which a video can then end",
        None,
        False,
        type=not_negative,
    )
    time_limit: float = option(
        "seconds without a new frame, after which a video counts as bad",
        300.0,
        False,
        type=positive_number,
        metavar="S",
    )
    retry: bool = flag("try videos again that failed in an earlier run", False)
    ray: str | None = option(
        "run on this cluster of Ray, such as auto or ray://HOST:10001; local starts one here",
        None,
        False,
        metavar="ADDRESS",
    )
    procs: int | None = option(
        "models on Ray (default: one for each GPU; without GPUs, for each core)",
        None,
        False,
        type=positive,
    )


@dataclass(frozen=True)
class LabelOptions(PartOptions, ClassOptions, BulkOptions):
    """Arguments of ``label``."""

    def _check(self) -> None:
        self.reading.check(self.boxes, "--boxes")
        has_windows = self.window is not None or self.stride is not None
        check_needs(vars(self), {"cuts": (has_windows or self.track, "--window or --track")})
