"""Reading many files in parallel, to find the bad ones among those that annotations name."""

import csv
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torch.utils.data import DataLoader
from tqdm import tqdm

from mmvidformer.datasets.decoding.errors import BadVideo, fault_of_frames, path_of, with_suffix
from mmvidformer.datasets.decoding.readers import open_video
from mmvidformer.datasets.decoding.safe_dataset import ReadingInterrupted, SafeDataset


class _Files(list):
    def __init__(self, read: Callable[[Mapping], object], infos: Sequence[Mapping]) -> None:
        super().__init__(infos)
        self.read = read

    def __getitem__(self, index: int) -> object:
        return self.read(self.get_data_info(index))

    get_data_info = list.__getitem__


class _Faults(SafeDataset):
    def __getitem__(self, idx: int) -> tuple[int, str | None]:
        try:
            super().__getitem__(idx)
        except (BadVideo, ReadingInterrupted) as error:
            return idx, getattr(error, "reason", str(error))
        return idx, None


def find_faults(
    read: Callable[[Mapping], object],
    infos: Sequence[Mapping],
    workers: int = 4,
    time_limit: float = 60.0,
) -> dict[str, str]:
    """Read files in parallel processes, with a progress bar. Those that hang or crash are replaced.

    Args:
        read: Function that reads a file, such as ``read_to_end``.
        infos: Argument of ``read`` for each file, with the path as ``filename`` or ``frame_dir``.
        workers: Number of processes.
        time_limit: Seconds for one file.

    Returns:
        The fault of each bad file by its path.
    """
    files = _Faults(_Files(read, infos), time_limit=time_limit)
    workers = min(workers, len(infos))
    # Without prefetching, no file waits behind one that hangs.
    options = dict(in_order=False, prefetch_factor=1 if workers else None)
    loader = DataLoader(files, batch_size=None, num_workers=workers, **options)
    faults: dict[str, str] = {}
    bar = tqdm(loader, unit="file", disable=None)
    for index, fault in bar:
        if fault is not None:
            faults[path_of(infos[index])] = fault
            bar.set_postfix(bad=len(faults))
    return faults


def add_list_arguments(parser: ArgumentParser, time_limit: float) -> None:
    """Add the arguments that describe annotation files and how their files are read."""
    parser.add_argument("--root", default="", help="folder of the videos (the data_prefix)")
    parser.add_argument("--workers", type=int, default=4, help="number of processes (default: 4)")
    parser.add_argument(
        "--time-limit", type=float, default=time_limit, help="seconds for one file (%(default)g)"
    )
    parser.add_argument("--delimiter", default=" ", help="delimiter of the columns of a list")


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
    reader = open_video(with_suffix(info["filename"]), short_side=1)  # keeps a pixel of each frame
    reader.get_batch(range(1 if first_only else len(reader)))


def read_entries(
    ann_file: str | Path,
    root: str | Path = "",
    delimiter: str = " ",
    filename_tmpl: str = "img_{:05}.jpg",
) -> list[tuple[str, dict]]:
    """Read a list of videos, ``PATH LABEL``, or of folders of frames, ``FOLDER FRAMES LABEL``.

    Returns:
        Each line, with the argument of ``read_to_end``.

    Raises:
        ValueError: If a line has another form. The message names file and line.
    """
    entries = []
    lines = Path(ann_file).read_text(encoding="utf-8").splitlines(keepends=True)
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
    entries: Sequence[tuple[str, Mapping]],
    faults: Mapping[str, str],
    ending: str = "_clean",
) -> tuple[Path, Path]:
    """Write ``<name>_bad.csv`` (line, path, reason) and ``<name><ending>.<extension>``.

    ``faults`` are by path, and ``entries`` come from ``read_entries``. Returns the two paths.
    """
    name, out_dir = Path(ann_file), Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    bad = out_dir / f"{name.stem}_bad.csv"
    clean = out_dir / f"{name.stem}{ending}{name.suffix}"
    rows, kept = [("line", "path", "reason")], []
    for number, (text, info) in enumerate(entries, start=1):
        path = path_of(info)
        if path in faults:
            rows.append((number, path, faults[path]))
        else:
            kept.append(text)
    with bad.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    clean.write_text("".join(kept), encoding="utf-8")
    return bad, clean
