"""Reads every file that an annotation file names, to find the bad ones before training does."""

import csv
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from mmvidformer.datasets.decoding.faults import fault_of_file, fault_of_frames, path_of, words
from mmvidformer.datasets.decoding.helper_process import HelperDied, HelperProcess
from mmvidformer.datasets.epic_kitchens import COLUMNS

# Frames that are held at once while a video is read.
CHUNK = 16


@dataclass(frozen=True)
class Entry:
    """A line of an annotation file that names a file.

    Args:
        line: Number of the line, from 1.
        text: The line.
        info: ``filename``, or ``frame_dir`` and what ``fault_of_frames`` needs.
    """

    line: int
    text: str
    info: dict


def read_entries(
    ann_file: str | Path,
    root: str | Path = "",
    delimiter: str = " ",
    filename_tmpl: str = "img_{:05}.jpg",
    name: str = "{participant_id}/videos/{video_id}.MP4",
) -> tuple[str, list[Entry]]:
    """Read a list of videos, of folders of frames, or the csv of EPIC-Kitchens-100.

    A ``.csv`` with a header is EPIC-Kitchens'; else a line is ``PATH LABEL`` or
    ``FOLDER FRAMES LABEL``, as MMAction2's.

    Args:
        ann_file: The annotation file.
        root: Folder of the videos or folders (``data_prefix``).
        delimiter: Between the columns of a list.
        filename_tmpl: Names of frames.
        name: Path of a video by the columns of the csv.

    Returns:
        The header, empty for lists, and the lines below it.

    Raises:
        ValueError: If a line has another form; the message gives file and line.
    """
    root = Path(root)
    lines = Path(ann_file).read_text(encoding="utf-8").splitlines(keepends=True)
    if lines and set(COLUMNS) <= set(next(csv.reader(lines[:1]))):
        rows = csv.DictReader(lines)
        # Quoted fields of the csv hold no line breaks.
        entries = [
            Entry(number, text, {"filename": str(root / name.format(**row))})
            for number, (text, row) in enumerate(zip(lines[1:], rows, strict=True), start=2)
        ]
        return lines[0], entries
    entries = []
    for number, text in enumerate(lines, start=1):
        columns = text.strip().split(delimiter)
        path = str(root / columns[0])
        if len(columns) == 2:
            info = {"filename": path}
        elif len(columns) == 3 and columns[1].isdigit():
            info = {"frame_dir": path, "filename_tmpl": filename_tmpl}
            info.update(total_frames=int(columns[1]), start_index=1)
        else:
            raise ValueError(
                f"{ann_file}, line {number}: expected 'PATH LABEL' or 'FOLDER FRAMES LABEL' with "
                f"{delimiter!r} between, got {text.strip()[:100]!r}"
            )
        entries.append(Entry(number, text, info))
    return "", entries


def check_file(info: Mapping) -> str | None:
    """Read a whole video, or all frames of a folder; says what is wrong, or None."""
    path = path_of(info)
    if "frame_dir" in info:
        return fault_of_frames(path, info)
    return fault_of_file(path) or _fault_of_content(path)


def _fault_of_content(path: str) -> str | None:
    import decord

    decord.logging.set_level(decord.logging.QUIET)  # FFmpeg tells of each damaged block
    try:
        reader = decord.VideoReader(path, num_threads=1)
        count = len(reader)
        for first in range(0, count, CHUNK):
            reader.get_batch(range(first, min(first + CHUNK, count)))
    except Exception as error:  # decord's have no base of their own
        return words(error)
    return None if count else "has no frames"


def scan(
    infos: Iterable[Mapping], workers: int = 1, time_limit: float = 60.0
) -> Iterator[tuple[str, str | None]]:
    """Check files in helper processes, of which those that hang or crash are replaced.

    Args:
        infos: Files, as ``check_file`` takes them.
        workers: Helper processes.
        time_limit: Seconds for one file.

    Yields:
        Path and fault of each file, None for a good one, as they become known.
    """
    waiting = iter(infos)
    busy: dict[object, tuple[HelperProcess, Mapping, float]] = {}

    def give(helper: HelperProcess) -> None:
        info = next(waiting, None)
        if info is None:
            helper.stop()
            return
        helper.submit(info)
        busy[helper.connection] = (helper, info, time.monotonic() + time_limit)

    for _ in range(workers):
        give(HelperProcess(check_file))
    while busy:
        earliest = min(deadline for _, _, deadline in busy.values())
        ready = wait(list(busy), timeout=max(0.0, earliest - time.monotonic()))
        now = time.monotonic()
        late = [key for key, (_, _, deadline) in busy.items() if deadline <= now]
        for connection in dict.fromkeys([*ready, *late]):
            helper, info, _ = busy.pop(connection)
            if connection in ready:
                fault = _answer(helper)
            else:
                fault = f"took longer than {time_limit:g} s and was killed"
            if fault is not None:  # a decoder that failed may have left its process damaged
                helper.stop()
                helper = HelperProcess(check_file)
            yield path_of(info), fault
            give(helper)


def _answer(helper: HelperProcess) -> str | None:
    try:
        return helper.receive()
    except HelperDied as died:
        return str(died)


def write_report(
    ann_file: str | Path,
    out_dir: str | Path,
    header: str,
    entries: Sequence[Entry],
    faults: Mapping[str, str],
) -> tuple[Path, Path]:
    """Write the bad lines with their faults, and the annotation file without them.

    Args:
        ann_file: The annotation file.
        out_dir: Folder to write to.
        header: Its header.
        entries: Its lines.
        faults: What is wrong with each bad file.

    Returns:
        Paths of ``<name>_bad.csv`` (line, path, reason) and ``<name>_clean.<extension>``.
    """
    ann_file, out_dir = Path(ann_file), Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    bad = out_dir / f"{ann_file.stem}_bad.csv"
    clean = out_dir / f"{ann_file.stem}_clean{ann_file.suffix}"
    with bad.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["line", "path", "reason"])
        for entry in entries:
            path = path_of(entry.info)
            if path in faults:
                writer.writerow([entry.line, path, faults[path]])
    kept = [entry.text for entry in entries if path_of(entry.info) not in faults]
    clean.write_text(header + "".join(kept), encoding="utf-8")
    return bad, clean
