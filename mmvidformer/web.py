import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import av
import numpy as np

from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.datasets.decoding.readers import open_video
from mmvidformer.engine.errors import MISTAKES, describe
from mmvidformer.visualization.annotate import annotate_video, classify_boxes
from mmvidformer.visualization.heatmaps import rollout_clips
from mmvidformer.visualization.timeline import draw_timeline
from mmvidformer.visualization.videos import VideoOutput

if TYPE_CHECKING:  # optional
    from gradio import Blocks

WINDOW, MOST = 2.0, 8  # seconds of a window, and most windows without overlap
KEPT = 600  # seconds for which files of the page are kept
MAX_PIXELS = 4096 * 2304  # decoded frames of a small file can be huge


def check_video(path: str, max_mb: float, max_seconds: float) -> tuple[int, float]:
    """Return the number of frames of a video, and its frames per second, without decoding it.

    Raises:
        ValueError: If the file is too large, too long, no video, its frames are too large, or its
            frame rate is unknown or varies.
    """
    size = os.path.getsize(path) / 1e6
    if size > max_mb:
        raise ValueError(f"a file must have at most {max_mb:g} MB, got {size:.1f} MB")
    try:
        reader = open_video(path, max_pixels=MAX_PIXELS)
        reader.number_by_time()
        frames, fps = len(reader), reader.get_avg_fps()
    except av.FFmpegError as error:
        raise ValueError(f"cannot read {path} as a video: {error.strerror}") from error
    if not fps:
        raise ValueError(f"the frame rate of {path} is unknown")
    seconds = frames / fps
    if seconds > max_seconds:
        raise ValueError(f"a video must have at most {max_seconds:g} s, got {seconds:.1f} s")
    return frames, fps


def classes_of(predictions: list[Prediction], k: int = 5) -> dict[str, float] | str:
    """Mean probabilities of the k most likely classes of each task, by name; or mean values.

    Of segments and boxes it is the highest score of each class.
    """
    if not predictions:
        return "nothing found"
    if predictions[0].kind == "value":
        means = {n: np.mean([one.values[n] for one in predictions]) for n in predictions[0].values}
        return ", ".join(f"{name} {value:.4g}" for name, value in means.items())
    found: dict[str, float] = {}
    average = np.max if predictions[0].kind == "segment" or predictions[0].box else np.mean
    for task, names in predictions[0].names.items():
        mean = average([one.probabilities[task] for one in predictions], axis=0)
        prefix = "" if len(predictions[0].names) == 1 else f"{task}: "
        found |= {prefix + names[i]: float(mean[i]) for i in np.argsort(-mean)[:k]}
    return found


def build_page(
    models: Mapping[str, Callable[[], Recognizer]], example: str, max_mb: float, max_seconds: float
) -> "Blocks":
    """Build the page: the classes of a video, a timeline of them, and attention rollout.

    A model of boxes shows a film of persons, which torchvision's detector finds.

    Args:
        models: Functions that load the models, by name; the first is the default.
        example: Video to offer.
        max_mb: Largest size of a video in megabytes.
        max_seconds: Longest duration of a video.
    """
    import gradio as gr

    def predict(name: str, video: str | None, progress=gr.Progress()) -> Iterator[tuple]:  # noqa: B008
        if video is None:
            gr.Warning("choose a video, or record one")
            return
        try:
            frames, fps = check_video(video, max_mb, max_seconds)
            progress(0, "loading the model")
            recognizer = models[name]()
            if recognizer.over == "boxes":
                progress(0, "boxes of persons")
                boxes = classify_boxes(recognizer, Path(video), "persons")
                with TemporaryDirectory() as folder:
                    film = Path(folder, "boxes.mp4")
                    annotate_video(Path(video), boxes, film)
                    yield classes_of(boxes), None, str(film)
                return
            window = max(WINDOW, frames / fps / MOST) if recognizer.over == "clip" else None
            opened = recognizer.pipeline.open(video)
            parts = recognizer.windows(opened, window)
            timeline = recognizer.timeline(video, window)
            found = list(progress.tqdm(timeline, total=len(parts), desc="windows"))
            picture = draw_timeline(found, Path(video).name) if found else None
            yield classes_of(found), picture, None
            if not window or found[0].kind == "value":  # rollout shows a class of a window
                return
            progress(0, "attention rollout")
            surest = max(range(len(found)), key=lambda i: found[i].top(1)[0][2])
            sample = recognizer.pipeline.read(opened, parts[surest])
            with TemporaryDirectory() as folder:
                path = Path(folder, "rollout.mp4")
                try:
                    ((_, images),) = rollout_clips(recognizer, sample, Path(video).name)
                except ValueError as error:  # not defined for the model
                    gr.Warning(describe(error))
                    return
                with VideoOutput(path, fps=4) as output:
                    for image in images:
                        output.add(image)
                yield gr.skip(), gr.skip(), str(path)
        except MISTAKES as error:
            text = describe(error).replace(f"{Path(video).parent}{os.sep}", "")
            raise gr.Error(text, print_exception=False) from error

    async def refuse_addresses(path: str) -> str:
        if not Path(path).is_file():
            raise gr.Error("upload a video instead of giving an address", print_exception=False)
        return await move(path)

    with gr.Blocks(title="mmvidformer", analytics_enabled=False, delete_cache=(60, KEPT)) as page:
        gr.Markdown(
            "# mmvidformer\nThe most likely classes of a video, their probabilities over time, and "
            f"what the model attends to. Videos of at most {max_seconds:g} s and {max_mb:g} MB are "
            f"deleted after {KEPT // 60} minutes."
        )
        with gr.Row():
            with gr.Column():
                model = gr.Dropdown(list(models), label="Model")
                video = gr.Video(label="Video", sources=["upload", "webcam"], height=380)
                button = gr.Button("Classify", variant="primary")
                gr.Examples([example], video, label="A film of camera motions")
            with gr.Column():
                classes = gr.Label(label="Classes, mean over the windows")
                timeline = gr.Plot(label="Timeline", show_label=False)
                rollout = gr.Video(label="Rollout", show_label=False, autoplay=True, loop=True)
        move = video.async_move_resource_to_block_cache
        video.async_move_resource_to_block_cache = refuse_addresses
        outputs = [classes, timeline, rollout]
        button.click(predict, [model, video], outputs, api_name="predict", concurrency_limit=1)
    return page.queue(max_size=8)
