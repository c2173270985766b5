"""The page: upload a video, see its classes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mmvidformer.web.answers import Answer, answer_page
from mmvidformer.web.limits import KEPT
from mmvidformer.web.process import AnswerProcess

if TYPE_CHECKING:  # optional
    from gradio import Blocks


def build_page(titles: Mapping[str, str], process: AnswerProcess, example: str) -> "Blocks":
    """Build the page: the classes of a video, a timeline, segments, films, attention rollout.

    A model of boxes shows a film of persons, which torchvision's detector finds. What is wrong with
    a video stands in the page.

    Args:
        titles: Titles of the models of ``process`` to choose from, by name; the first is the
            default.
        process: What answers.
        example: Video to offer.
    """
    import gradio as gr

    def predict(name: str, video: str | None, progress=gr.Progress()) -> Iterator[tuple]:  # noqa: B008
        shown = Answer(note="" if video else "Choose a video, or record one.")
        yield tuple(shown)
        if video is None:
            return
        progress(0, "loading the model")
        with TemporaryDirectory() as folder:
            try:
                for part in process.ask(name, answer_page, Path(video), folder):
                    if not isinstance(part, Answer):
                        progress(*part)
                        continue
                    shown = Answer(*(new or old for new, old in zip(part, shown, strict=True)))
                    yield tuple(shown)
            except ValueError as error:
                yield tuple(shown._replace(note=f"**Not answered:** {error}"))

    async def refuse_addresses(path: str) -> str:
        if not Path(path).is_file():
            raise gr.Error("upload a video instead of giving an address", print_exception=False)
        return await move(path)

    limits = process.limits
    with gr.Blocks(title="mmvidformer", analytics_enabled=False, delete_cache=(60, KEPT)) as page:
        gr.Markdown(
            "# mmvidformer\nThe most likely classes of a video, their probabilities over time, "
            "what the model attends to, and segments and an annotated film to download. "
            f"Videos of at most {limits.max_seconds:g} s and "
            f"{limits.max_mb:g} MB are deleted after {KEPT // 60} minutes."
        )
        with gr.Row():
            with gr.Column():
                choices = [(title, name) for name, title in titles.items()]
                model = gr.Dropdown(choices, label="Model")
                video = gr.Video(label="Video", sources=["upload", "webcam"], height=380)
                button = gr.Button("Classify", variant="primary")
                gr.Examples([example], video, label="The clip that comes with camera_motion")
            with gr.Column():
                note = gr.Markdown()
                headline = gr.Markdown()
                classes = gr.Label(label="Classes", show_heading=False)
                timeline = gr.Plot(label="Timeline", show_label=False)
                rollout = gr.Video(label="Rollout", show_label=False, autoplay=True, loop=True)
                table = gr.Dataframe(label="Segments", interactive=False)
                files = gr.File(label="Download", file_count="multiple")
        move = video.async_move_resource_to_block_cache
        video.async_move_resource_to_block_cache = refuse_addresses
        outputs = [classes, timeline, rollout, note, headline, table, files]
        # Of all outputs, each would cover itself with the same bar.
        named = dict(api_name="predict", concurrency_limit=1, show_progress_on=classes)
        button.click(predict, [model, video], outputs, **named)
    return page.queue(max_size=8)
