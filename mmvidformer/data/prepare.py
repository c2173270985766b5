import os
import random
from functools import partial
from pathlib import Path

from mmvidformer.data.list_folders import DURATIONS, GROUPS
from mmvidformer.data.lists import check_report, read_video_list, write_report
from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.storage.targets import check_targets
from mmvidformer.video.check_files import find_faults
from mmvidformer.video.encode import encode_video
from mmvidformer.video.errors import with_suffix


def prepare_list(
    ann_file: str | Path,
    out: str | Path,
    root: str | Path = "",
    workers: int = 4,
    time_limit: float = 3600.0,
    **settings: int,
) -> int:
    """Re-encode the videos of a list, write a list of the results, and count the bad videos.

    Videos that exist in ``out`` are kept, whatever their settings, so a run may be repeated, and
    several machines may fill one folder. Groups and durations of the videos go with them.

    Args:
        ann_file: List of videos, of any task (``read_video_list``).
        out: Folder of the results. Videos have the paths there that they have below ``root``, and
            those of other formats end with ``.mp4`` in addition. The annotation file keeps its
            name, without the lines of bad videos, which ``<name>_bad.csv`` lists.
        root: Folder of the videos.
        workers: Number of processes, with one thread each.
        time_limit: Seconds for one video.
        **settings: Arguments of ``encode_video``.

    Raises:
        FileExistsError: If ``out`` has a list of the same name of other origin.
        UserError: If a video is not below ``root``, ``out`` is the same folder, or the results of
            two videos would be one file.
    """
    out = Path(out)
    targets: dict[str, str] = {}
    lines = []
    if out.resolve() == Path(root).resolve():
        raise UserError(f"the results need another folder than {out}, that of the videos")
    video_list = read_video_list(ann_file)
    for line in video_list.lines:
        name, source = _name_of(line.path, root), os.path.join(root, line.path)
        if name is None:
            raise UserError(f"{ann_file}: {source} is not below the folder {root or '.'}")
        source = with_suffix(source)
        targets[source] = str(out / name)
        lines.append((source, video_list.rename(line, name)))
    results = [*targets.items(), (str(ann_file), out / Path(ann_file).name)]
    check_targets(results, [ann_file, *targets], force=True)
    check_report(ann_file, out, ending="")
    missing = [(source, target) for source, target in targets.items() if not os.path.exists(target)]
    random.Random().shuffle(missing)  # machines that fill one folder begin with different videos
    print(f"{len(targets)} videos, {len(targets) - len(missing)} of them already in {out}")
    faults = find_faults(partial(encode_video, **settings), missing, workers, time_limit)
    bad, _ = write_report(ann_file, out, lines, faults, "", video_list.header)
    for table in (GROUPS, DURATIONS):
        _rename_rows(Path(ann_file).parent / table, out / table, root)
    if faults:
        print(f"{len(faults)} videos are bad: see {bad}")
    return len(faults)


def _name_of(video: str, root: str | Path) -> str | None:
    """Return the path of a result below its folder; None if the video is not below ``root``."""
    name = Path(os.path.relpath(os.path.join(root, video), root or ".")).as_posix()
    if name.startswith("../"):
        return None
    return name if name.lower().endswith(".mp4") else f"{name}.mp4"


def _rename_rows(file: Path, target: Path, root: str | Path) -> None:
    """Add the rows of a table beside the lists, if there is one, to that of the results."""
    if not file.is_file():
        return
    table, rows = read_video_list(file), {}
    if target.is_file():
        rows = {line.path: line.text for line in read_video_list(target).lines}
    for line in table.lines:
        if name := _name_of(line.path, root):
            rows[name] = table.rename(line, name)
    with write_atomically(target) as part:
        part.write_text(table.header + "".join(rows.values()), encoding="utf-8")
