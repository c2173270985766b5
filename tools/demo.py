"""Predict videos of any length: python tools/demo.py VIDEO|FOLDER|CAMERA --config --checkpoint.

Prints the likeliest classes of each video; with --window of each part of it. Anticipation, and
early recognition frame by frame, are shown by tools/demo_stream.py.

Exit status: 0, or 1 if a video could not be read (the others are done all the same).
"""

import contextlib
import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from mmengine.config import DictAction
from tqdm import tqdm

from mmvidformer.apis import Capture, Failure, Pace, Prediction, Recognizer, read_class_names
from mmvidformer.apis.annotate import bars_of, play
from mmvidformer.config import load_config
from mmvidformer.datasets.video_files import find_videos
from mmvidformer.engine.launch import run_tool
from mmvidformer.visualization import Film, StreamPages, Window, draw_timeline


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("source", help="video, folder of videos, or number of a camera (0, ...)")
    parser.add_argument("--config", required=True, help="config file, or name of a shipped config")
    parser.add_argument("--checkpoint", required=True, help="checkpoint file or address")
    parser.add_argument(
        "--classes",
        nargs="+",
        metavar="FILE",
        help="class names, a name a line or csv; default: the config's. Several tasks: verb=FILE",
    )
    parser.add_argument("--topk", type=int, default=5, help="classes that are told (default: 5)")
    parser.add_argument("--window", type=float, help="predict parts of so many seconds (camera: 2)")
    parser.add_argument("--stride", type=float, help="seconds between parts; default: half a part")
    parser.add_argument("--json", type=Path, help="write all predictions into this file")
    parser.add_argument(
        "--out", type=Path, help="write the video with the classes beside it (.mp4); "
        "of a folder: the folder for such films"
    )  # fmt: skip
    parser.add_argument(
        "--timeline", type=Path, help="draw the classes over time (.png); of a folder: a folder"
    )
    parser.add_argument("--show", action="store_true", help="in a window; q or Esc ends it")
    parser.add_argument("--seconds", type=float, help="end a camera after so many seconds")
    parser.add_argument("--batch-size", type=int, default=8, help="videos or parts a step")
    parser.add_argument("--device", default="cpu", help="such as cuda (default: cpu)")
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, help="settings to change, as key=value"
    )
    args = parser.parse_args(argv)
    if args.topk < 1:
        parser.error(f"--topk must be at least 1, got {args.topk}")
    args.is_camera = args.source.isdigit() and not Path(args.source).exists()
    if args.timeline and args.is_camera:
        parser.error("--timeline is for files")
    if args.window is None and (args.timeline or args.is_camera):
        args.window = 2.0
    return args


def describe(prediction: Prediction, k: int) -> str:
    """A line for people: where, and the likeliest classes of each task."""
    part = prediction.seconds
    where = prediction.source or "camera"
    where += f" {part[0]:.2f}-{part[1]:.2f} s" if part else ""
    tops = [
        ("" if len(prediction.scores) == 1 else f"{task}: ")
        + ", ".join(f"{name} {share:.0%}" for _, name, share in prediction.top(k, task))
        for task in prediction.scores
    ]
    return f"{where}: {'; '.join(tops)}"


class Demo:
    """The predictions of one call of the tool."""

    def __init__(self, args: Namespace, recognizer: Recognizer, window: Window | None) -> None:
        self.args = args
        self.recognizer = recognizer
        self.window = window
        self.records: list[dict] = []
        self.failed = 0

    def tell(self, one: Prediction | Failure) -> None:
        """Print and note a prediction, or what went wrong."""
        if isinstance(one, Failure):
            self.failed += 1
            tqdm.write(f"failed: {one.error}", file=sys.stderr)
            self.records.append({"source": one.source, "error": str(one.error)})
        else:
            tqdm.write(describe(one, self.args.topk))
            self.records.append(one.record(self.args.topk))

    def files(self, videos: Sequence[Path]) -> None:
        """Predict files, whole ones in batches."""
        if self.args.window is None:
            found = self.recognizer.each(videos)
            groups = ((video, [one]) for video, one in zip(videos, found, strict=True))
        else:
            groups = ((video, self.parts(video)) for video in videos)
        bar = tqdm(groups, total=len(videos), unit="video", disable=None)
        for video, predictions in bar:
            for one in predictions:
                self.tell(one)
            good = [one for one in predictions if isinstance(one, Prediction)]
            if good and not self.draw(video, good):
                break

    def parts(self, video: Path) -> list[Prediction | Failure]:
        """Predict the windows of a video."""
        try:
            return list(self.recognizer.timeline(video, self.args.window, self.args.stride))
        except (OSError, ValueError) as error:
            return [Failure(str(video), error)]

    def draw(self, video: Path, predictions: Sequence[Prediction]) -> bool:
        """Write and show what is asked for; False ends the demo."""
        args = self.args
        if args.timeline:
            target = self.place(args.timeline, video, "_timeline.png")
            task = next(iter(predictions[0].scores))
            shares = np.stack([p.probabilities[task] for p in predictions])
            times = np.array([p.seconds for p in predictions])
            figure = draw_timeline(times, shares, predictions[0].names[task], video.name)
            figure.savefig(target)
            tqdm.write(f"written: {target}")
        if not (args.out or self.window):
            return True
        target = self.place(args.out, video, ".mp4") if args.out else None

        def progress(frames, total):
            return tqdm(frames, total=total, unit="frame", leave=False, disable=None)

        try:
            go_on = play(video, predictions, target, self.window, args.topk, progress)
        except ValueError as error:  # decord reads some files that OpenCV does not
            self.tell(Failure(str(video), error))
            return True
        if target:
            tqdm.write(f"written: {target}")
        return go_on

    def place(self, given: Path, video: Path, ending: str) -> Path:
        """Where to write: as given, or for the videos of a folder a file in that folder."""
        source = Path(self.args.source)
        target = given
        if source.is_dir():
            relative = video.relative_to(source)
            target = given / relative.with_name(relative.name.replace(".", "_") + ending)
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def camera(self) -> None:
        """Predict windows of a camera until it ends, q is pressed, or the time is over."""
        args = self.args
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(Capture(args.source))
            stack.enter_context(contextlib.suppress(KeyboardInterrupt))
            frames = self.until(source)
            latest = pages = film = None
            for frame, one in self.recognizer.follow(frames, source.fps, args.window, args.stride):
                if one is not None:
                    latest = one
                    self.tell(one)
                if latest is None or not (args.out or self.window):
                    continue
                bars = bars_of(latest, args.topk)
                if pages is None:
                    pages = StreamPages(frame.shape[:2], bars)
                    if args.out:
                        args.out.parent.mkdir(parents=True, exist_ok=True)
                        film = stack.enter_context(Film(args.out, source.fps, pages.size))
                page = pages.draw(frame, f"camera {args.source}", bars)
                if film:
                    film.add(page)
                if self.window and not self.window.show(page):
                    break

    def until(self, source: Capture) -> Iterator[np.ndarray]:
        """Frames of a camera, to the end that was asked for."""
        for _, seconds, pixels in source.frames(Pace()):
            if self.args.seconds is not None and seconds >= self.args.seconds:
                return
            yield pixels


def main(argv: Sequence[str] | None = None) -> int:
    """Predict as the command line says; gives the exit status."""
    args = parse_args(argv)
    cfg = load_config(args.config, args.cfg_options)
    source = Path(args.source)
    videos = [source]
    if source.is_dir():
        videos, others = find_videos(source)
        print(f"{source}: {len(videos)} videos, {len(others)} other files", file=sys.stderr)
        if not videos:
            raise FileNotFoundError(f"there is no video in {source}")
    elif not args.is_camera and not source.is_file():
        raise FileNotFoundError(f"there is no file or folder {source}, and it is no camera number")
    recognizer = Recognizer(cfg, args.checkpoint, args.device, batch_size=args.batch_size)
    if args.classes:
        recognizer.names = read_class_names(args.classes, recognizer.tasks)
    with contextlib.ExitStack() as stack:
        window = stack.enter_context(Window(f"{args.source}: q ends")) if args.show else None
        demo = Demo(args, recognizer, window)
        if args.is_camera:
            demo.camera()
        else:
            demo.files(videos)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        content = {"config": args.config, "checkpoint": args.checkpoint, "videos": demo.records}
        args.json.write_text(
            json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        print(f"written: {args.json}", file=sys.stderr)
    if demo.failed:
        print(f"{demo.failed} of {len(videos)} videos failed", file=sys.stderr)
    return 1 if demo.failed else 0


if __name__ == "__main__":
    sys.exit(run_tool(main))
