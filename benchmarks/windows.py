"""Windows of long videos and of streams: python -m benchmarks.windows PART [--model NAME].

overlap  windows per second of CPU time by overlap: before, with shared frames, and in the way of
         MMAction2's long_video_demo, which keeps decoded frames and computes each window
views    a test of 4 x 3 views whose clips overlap, aligned: each computed, and with shared frames
long     memory of a long video of 640 x 360 (--minutes), whose segment is repeated without encoding
live     latency and dropped frames of a stream of 30 frames per second; the server goes away

All models have random weights. One thread.
"""

import itertools
import resource
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer

import av
import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate

from benchmarks.live_server import LiveServer
from benchmarks.outputs import parse_with_results, with_suffixes
from mmvidformer.apis import Capture, Recognizer
from mmvidformer.config import load_config
from mmvidformer.engine.pipelines import align_clips
from mmvidformer.engine.tables import print_table
from mmvidformer.models.fast.shared_frames import split_stages
from mmvidformer.video.writer import VideoOutput

SMALL = dict(arch=dict(embed_dims=192, depth=4, num_heads=3), img_size=112)
# Config, changes of its backbone, width, length and interval of a clip, short side of frames.
MODELS = {
    "vivit": ("vivit_fe_k400", {}, 768, 32, 2, 256),
    "space_only": ("timesformer_b_k400", dict(scheme="space_only"), 768, 8, 8, 256),
    "small": ("vivit_fe_k400", SMALL, 192, 32, 2, 128),
    "horst": ("horst_early25_sthv2", {}, 512, 16, 4, 224),
}
OVERLAPS = (0, 0.5, 0.75, 0.875)


def load(name: str, clips: int | None = 1) -> tuple[Recognizer, int]:
    """A recognizer of evenly spaced frames, and the number of frames that its clip spans."""
    config, changes, width, length, interval, side = MODELS[name]
    cfg: Config = load_config(config)
    cfg.model.backbone.update(changes)
    cfg.model.cls_head.in_channels = width
    sample = dict(type="SampleFrames", clip_len=length, frame_interval=interval, test_mode=True)
    for loader in (cfg.val_dataloader, cfg.test_dataloader):
        steps = loader.dataset.pipeline
        steps[1] = {**sample, "num_clips": clips or 4}
        for step in steps:
            wide = -1 if step.get("keep_ratio", True) else side
            step.update({"scale": (wide, side)} if "scale" in step else {})
            step.update({"crop_size": side * 7 // 8} if "crop_size" in step else {})
    if clips is None:
        align_clips(cfg, 2)
    cfg.model.backbone.pop("init_from", None)
    torch.manual_seed(0)
    recognizer = Recognizer(cfg, None, "cpu", clips=clips)
    torch.nn.init.normal_(recognizer._model.cls_head.fc_cls.weight, std=0.02)
    return recognizer, length * interval


def write_video(path: Path, frames: int, size: tuple[int, int] = (360, 640)) -> None:
    """Noise that moves, of which no frame comes twice."""
    rng = np.random.default_rng(0)
    page = cv2.resize(rng.integers(0, 256, (size[0] // 8, size[1] // 4, 3), np.uint8), size[::-1])
    with VideoOutput(path, 30) as output:
        for i in range(frames):
            output.add(np.roll(page, (i, 3 * i), (0, 1)) // 4 * 3 + i % 60)


def cpu_time(steps: Iterator, count: int) -> tuple[float, list[np.ndarray]]:
    """CPU seconds of each of some steps after the first, and the scores."""
    scores = [next(steps).scores["class"]]
    start = time.process_time()
    scores += [next(steps).scores["class"] for _ in range(count)]
    return (time.process_time() - start) / count, scores


def measure_overlap(args: Namespace, folder: Path) -> None:
    """Print a table of windows per second."""
    recognizer, span = load(args.model)
    stages = split_stages(recognizer._fast or recognizer._model)
    video = folder / "noise.mp4"
    write_video(video, 5 * span)
    rows = []
    for overlap in OVERLAPS:
        step = round(span * (1 - overlap))
        spans = [(first, first + span - 1) for first in range(0, 4 * span + 1, step)]
        count = {0: 2, 0.5: 3}.get(overlap, 4)
        times, scores = {}, {}
        for way, run in {"before": anew, "now": windows, "MMAction2's way": queue}.items():
            recognizer._stages = stages if way == "now" else None
            steps = run(recognizer, video, spans, step)
            times[way], scores[way] = cpu_time(steps, count if way == "now" else 2)
        error = max(map(abs_error, scores["before"], scores["now"]))
        rate = [f"{1 / seconds:.3f}" for seconds in times.values()]
        gain = [f"{times[other] / times['now']:.2f}" for other in ("before", "MMAction2's way")]
        rows.append([f"{overlap:.1%}", *rate, *gain, f"{error:.1e}"])
        print(rows[-1], flush=True)
    head = ["overlap", *times, "now / before", "now / MMAction2's", "largest error"]
    print_table(head, rows, f"{args.model}: windows per second of CPU time", args.out)


def abs_error(scores: np.ndarray, other: np.ndarray) -> float:
    """Largest difference of scores."""
    return float(np.abs(scores - other).max())


def windows(recognizer: Recognizer, video: Path, spans: list, step: int) -> Iterator:
    """Windows with shared frames."""
    seconds = (spans[0][1] + 1) / 30, step / 30
    return recognizer.timeline(video, *seconds)


def anew(recognizer: Recognizer, video: Path, spans: list, step: int) -> Iterator:
    """Windows that are decoded and computed one by one."""
    for span in spans:
        sample = recognizer.pipeline.read(recognizer.pipeline.open(video), span)
        yield from recognizer.predictions_of(*recognizer.run_samples([sample]))


def queue(recognizer: Recognizer, video: Path, spans: list, step: int) -> Iterator:
    """Windows of a queue of decoded frames, each transformed and computed, as by MMAction2."""
    length = recognizer.cfg.test_dataloader.dataset.pipeline[1]["clip_len"]
    interval = (spans[0][1] + 1) // length
    transforms = recognizer.pipeline._from_file.transforms[1:]  # after decoding
    frames: deque[np.ndarray] = deque(maxlen=length)
    reader, number = cv2.VideoCapture(str(video)), 0
    while True:
        read, image = reader.read()
        if not read:
            return
        number += 1
        if number % interval == 0:
            frames.append(image[:, :, ::-1])
        if len(frames) == length:
            size = frames[0].shape[:2]
            data = dict(imgs=list(np.array(frames)), clip_len=length, num_clips=1, label=-1)
            data |= dict(modality="RGB", img_shape=size, original_shape=size)
            for transform in transforms:
                data = transform(data)
            with torch.no_grad():
                (scored,) = recognizer._model.test_step(pseudo_collate([data]))
            yield from recognizer.predictions_of(scored)
            for _ in range(step // interval):
                frames.popleft()


def measure_views(args: Namespace, folder: Path) -> None:
    """Print CPU seconds of a video of 112 frames: clips start at 0, 16, 32 and 48."""
    recognizer, span = load(args.model, clips=None)
    stages = split_stages(recognizer._fast or recognizer._model)
    times, scores = {}, {}
    for number in range(2):  # another video each time
        video = folder / f"noise_{number}.mp4"
        write_video(video, span + 48 + number)
        for name, shared in {"each view": None, "shared frames": stages}.items():
            recognizer._stages, start = shared, time.process_time()
            scores[name] = recognizer(video).scores["class"]
            times[name] = times.get(name, 0) + (time.process_time() - start) / 2
    error = abs_error(*scores.values())
    print({name: f"{seconds:.1f} s" for name, seconds in times.items()}, f"error {error:.1e}")
    print(f"{args.model}: {times['each view'] / times['shared frames']:.2f} times as fast")


def peak() -> float:
    """Largest memory of the process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_long(args: Namespace, folder: Path) -> None:
    """Classify a long video, window by window, and print time and memory."""
    recognizer, _ = load(args.model)
    segment, video = folder / "segment.mp4", folder / "long.mp4"
    write_video(segment, 30 * 60)
    repeat(segment, video, args.minutes)
    start = time.process_time()
    count, steps = 0, 0
    for window in recognizer.timeline(video, 64 / 30, args.stride):
        count += 1
        end = window.seconds[1]
        if end > 60 * 2**steps:
            used = time.process_time() - start
            print(f"{end / 60:6.1f} min: peak {peak():.0f} MiB, {used:.0f} s", flush=True)
            steps += 1
    used = time.process_time() - start
    print(f"{count} windows, {1000 * used / count:.1f} ms each, peak {peak():.0f} MiB")


def repeat(segment: Path, video: Path, times: int) -> None:
    """Write a segment as often as told, without encoding."""
    with av.open(str(segment)) as source, av.open(str(video), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        length = source.streams.video[0].duration
        for number in range(times):
            source.seek(0)
            for packet in source.demux(video=0):
                if packet.dts is not None:
                    packet.stream = stream
                    packet.pts, packet.dts = (x + number * length for x in (packet.pts, packet.dts))
                    target.mux(packet)


def measure_live(args: Namespace, folder: Path) -> None:
    """Classify a stream for 30 s, after 10 of which the server is gone for 3 s."""
    recognizer, _ = load(args.model)
    servers = [LiveServer(900, size=(360, 640))]

    def go_away() -> None:
        servers[0].__exit__()
        time.sleep(3)
        servers.append(LiveServer(900, size=(360, 640), port=servers[0].port))

    with Capture(servers[0].address) as source:
        frames, seconds, parts = source.frames(), 0.0, 0
        Timer(10, go_away).start()

        def pixels(part: Iterator) -> Iterator[np.ndarray]:
            nonlocal seconds
            for _, (_, when, image) in part:
                seconds = when
                yield image

        def dropped(numbered: tuple) -> int:
            count, (number, _, _) = numbered
            return number - count

        for _, part in itertools.groupby(enumerate(frames), dropped):
            parts += 1
            for window in recognizer.stream(pixels(part), source.fps, 64 / 30, args.stride):
                delay = source.note_delay(seconds)
                where = f"part {parts}, {window.seconds[1]:.2f} s"
                print(f"{seconds:6.2f} s: {where}, {1000 * delay:.0f} ms later", flush=True)
                if seconds > 30:
                    break
            if seconds > 30:
                break
        frames.close()
    servers[-1].__exit__()
    print(source.report())


PARTS: dict[str, Callable[[Namespace, Path], None]] = {
    "overlap": measure_overlap,
    "views": measure_views,
    "long": measure_long,
    "live": measure_live,
}


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--model", choices=MODELS, default="small", help="default: small")
    parser.add_argument("--minutes", type=int, default=120, help="of 'long' (default: 120)")
    parser.add_argument("--stride", type=float, default=32 / 30, help="seconds (default: 1.07)")
    parser.add_argument("--out", type=Path, help="csv file")
    args = parse_with_results(parser, None, with_suffixes(""))
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    with tempfile.TemporaryDirectory(prefix="windows_") as folder:
        PARTS[args.part](args, Path(folder))


if __name__ == "__main__":
    main()
