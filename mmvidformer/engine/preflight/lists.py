"""Which line of a list MMAction2 could not read."""

from traceback import walk_tb

from mmaction.datasets import RawframeDataset, VideoDataset

from mmvidformer.datasets.lists import FRAMES, VIDEOS, read_list
from mmvidformer.engine.preflight.samples import is_known


def explain_list(error: BaseException) -> str | None:
    """Find the malformed line of a list on which building a dataset has failed.

    MMAction2 raises the error of ``int``, of a tuple or of NumPy, without file and line.

    Returns:
        A message with file and line; None if no list is malformed.
    """
    while error.__context__ is not None:
        error = error.__context__  # MMEngine raises another one where it builds from a config
    for dataset in (frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)):
        if not hasattr(dataset, "ann_file") or not is_known(dataset):
            continue  # not yet, or of the user's own
        if isinstance(dataset, VideoDataset):
            columns, delimiter = VIDEOS, dataset.delimiter
        elif isinstance(dataset, RawframeDataset):
            columns = ("FOLDER", "OFFSET", "FRAMES") if dataset.with_offset else FRAMES
            delimiter = None
        else:
            continue
        try:
            entries = read_list(dataset.ann_file, delimiter, columns, dataset.multi_class)
        except ValueError as problem:
            return str(problem)
        except OSError:
            return None
        return None if entries else f"{dataset.ann_file} is empty"
    return None
