"""Reading many files in parallel, to find the bad ones among those that annotations name."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from torch.utils.data import DataLoader, Dataset

from mmvidformer.datasets.decoding.errors import BadVideo, fault_of_frames, path_of
from mmvidformer.datasets.decoding.readers import open_video
from mmvidformer.datasets.decoding.safe_dataset import ReadingInterrupted, SafeDataset
from mmvidformer.datasets.epic_kitchens import COLUMNS


class _Files(Dataset):
    def __init__(self, read: Callable[[Mapping], object], infos: Sequence[Mapping]) -> None:
        self.read, self.infos = read, infos

    def __len__(self) -> int:
        return len(self.infos)

    def __getitem__(self, index: int) -> object:
        return self.read(self.infos[index])

    def get_data_info(self, index: int) -> Mapping:
        return self.infos[index]


class _Outcomes(SafeDataset):
    def __getitem__(self, idx: int) -> object:
        try:
            return super().__getitem__(idx)
        except (BadVideo, ReadingInterrupted) as error:
            return error


def read_files(
    read: Callable[[Mapping], object],
    infos: Sequence[Mapping],
    workers: int = 4,
    time_limit: float = 60.0,
) -> Iterator[object]:
    """Read files in parallel processes, of which those that hang or crash are replaced.

    Args:
        read: Function that reads a file, such as ``read_to_end``.
        infos: Argument of ``read`` for each file, with the path as ``filename`` or ``frame_dir``.
        workers: Number of processes.
        time_limit: Seconds for one file.

    Yields:
        What ``read`` returns for each file, in order, or an exception for a bad one.
    """
    files = _Outcomes(_Files(read, infos), time_limit=time_limit)
    yield from DataLoader(files, batch_size=None, num_workers=min(workers, len(infos)))


def read_to_end(info: Mapping, first_only: bool = False) -> None:
    """Decode all frames of a video with PyAV, or of a folder, or only the first of a video.

    Raises:
        Exception: If a frame is missing or damaged.
    """
    if "frame_dir" in info:
        fault = fault_of_frames(info)
        if fault is not None:
            raise BadVideo(info["frame_dir"], fault)
        return
    reader = open_video(info["filename"], short_side=1)  # keeps a pixel of each frame
    reader.get_batch(range(1 if first_only else len(reader)))


def read_entries(
    ann_file: str | Path,
    root: str | Path = "",
    delimiter: str = " ",
    filename_tmpl: str = "img_{:05}.jpg",
    name: str = "{participant_id}/videos/{video_id}.MP4",
) -> list[tuple[str, dict | None]]:
    """Read a list of videos, of folders of frames, or the csv file of EPIC-Kitchens-100.

    Lines are ``PATH LABEL`` or ``FOLDER FRAMES LABEL``, as in MMAction2, unless there is the header
    of EPIC-Kitchens. ``name`` is a template of its columns.

    Returns:
        Each line, with the argument of ``read_to_end``, or None for a header.

    Raises:
        ValueError: If a line has another form. The message names file and line.
    """
    lines = Path(ann_file).read_text(encoding="utf-8").splitlines(keepends=True)
    if lines and set(COLUMNS) <= set(next(csv.reader(lines[:1]))):
        rows = csv.DictReader(lines)  # no field has a line break in it
        infos = [None, *({"filename": str(Path(root) / name.format(**row))} for row in rows)]
        return list(zip(lines, infos, strict=True))
    entries = []
    for number, text in enumerate(lines, start=1):
        columns = text.strip().split(delimiter)
        path = str(Path(root) / columns[0])
        if len(columns) == 2:
            info = {"filename": path}
        elif len(columns) == 3 and columns[1].isdigit():
            frames = int(columns[1])
            info = {"frame_dir": path, "filename_tmpl": filename_tmpl, "total_frames": frames}
        else:
            raise ValueError(
                f"{ann_file}, line {number}: expected 'PATH LABEL' or 'FOLDER FRAMES LABEL' with "
                f"the delimiter {delimiter!r}, got {text.strip()[:100]!r}"
            )
        entries.append((text, info))
    return entries


def write_report(
    ann_file: str | Path,
    out_dir: str | Path,
    entries: Sequence[tuple[str, Mapping | None]],
    faults: Mapping[str, str],
) -> tuple[Path, Path]:
    """Write ``<name>_bad.csv`` (line, path, reason) and ``<name>_clean.<extension>``.

    ``faults`` are by path, and ``entries`` come from ``read_entries``. Returns the two paths.
    """
    name, out_dir = Path(ann_file), Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    bad = out_dir / f"{name.stem}_bad.csv"
    clean = out_dir / f"{name.stem}_clean{name.suffix}"
    rows, kept = [("line", "path", "reason")], []
    for number, (text, info) in enumerate(entries, start=1):
        path = info and path_of(info)
        if path in faults:
            rows.append((number, path, faults[path]))
        else:
            kept.append(text)
    with bad.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    clean.write_text("".join(kept), encoding="utf-8")
    return bad, clean
