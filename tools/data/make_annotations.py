"""List videos of your own for MMAction2: python tools/data/make_annotations.py FOLDER | FILE.csv.

FOLDER holds class/video.mp4, or train/class/video.mp4, val/... and test/...; a csv file has the
columns path,label and may have split. Writes train.txt, val.txt, test.txt (path and number of the
class) and classes.txt (names), and prints how many videos of each class are in each.
"""

from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tqdm import tqdm

from mmvidformer.datasets.decoding.check_files import read_files, read_to_end
from mmvidformer.datasets.own_lists import FILES, write_lists
from mmvidformer.datasets.own_videos import (
    count_splits,
    read_class_folders,
    read_labels_csv,
    split_videos,
)


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
    parser.add_argument("source", type=Path, help="folder of the classes, or a csv file")
    parser.add_argument("--out", type=Path, help="folder of the lists; None: that of the videos")
    parser.add_argument("--root", type=Path, help="folder of a csv file's paths; None: its own")
    parser.add_argument("--val", type=float, default=0.15, help="share for validation")
    parser.add_argument("--test", type=float, default=0.15, help="share for testing")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--force", action="store_true", help="write over lists that are there")
    parser.add_argument(
        "--no-check", action="store_true", help="do not open each video to see if it can be read"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Read, check, split, write and count."""
    args = parse_args(argv)
    if args.source.suffix.lower() == ".csv":
        videos, others = read_labels_csv(args.source, args.root), []
        root = args.root or args.source.parent
    else:
        videos, others = read_class_folders(args.source)
        others = [path for path in others if path not in [args.source / name for name in FILES]]
        root = args.source
    tell([(path, "no video by its suffix, or in no class's folder") for path in others])
    if not args.no_check:
        infos = [{"filename": str(video.path)} for video in videos]
        read = read_files(partial(read_to_end, first_only=True), infos)
        bar = tqdm(read, total=len(videos), unit="video", disable=None)
        checked = zip(videos, bar, strict=True)
        wrong = {video: error for video, error in checked if error is not None}
        tell([(video.path, getattr(e, "reason", str(e))) for video, e in wrong.items()])
        videos = [video for video in videos if video not in wrong]
    videos = split_videos(videos, args.val, args.test, args.seed)
    lists = write_lists(videos, args.out or root, args.force)
    counts = count_splits(videos)
    width = max(map(len, [*counts, "class"]))
    print(f"{'class':{width}}  train    val   test")
    for name, row in {**counts, "all": tuple(map(sum, zip(*counts.values(), strict=True)))}.items():
        print(f"{name:{width}} " + "".join(f"{count:6} " for count in row).rstrip())
    for name, (train, val, test) in counts.items():
        if not train or train + val + test < 3:
            print(f"class {name!r} is small: {train} to train, {val} to validate, {test} to test")
    print(f"written to {lists.root}")
    if lists.delimiter == "\t":
        print('some paths have blanks: in a config of your own give the datasets delimiter="\\t"')


def tell(left_out: Sequence[tuple[Path, str]], most: int = 20) -> None:
    """Print files that were left out."""
    for number, (path, why) in enumerate(left_out):
        if number == most:
            print(f"... and {len(left_out) - most} more files left out")
            break
        print(f"left out: {path}: {why}")


if __name__ == "__main__":
    main()
