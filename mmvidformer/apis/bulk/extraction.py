"""Features of many videos: what a recognizer's backbone gives to its head, as rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from mmengine.config import Config

from mmvidformer.apis.bulk.reading import VIDEOS_AT_ONCE, Clip, Where, WholeVideos
from mmvidformer.apis.factory import find_model
from mmvidformer.apis.fast import make_fast
from mmvidformer.apis.features import backbone_features, check_features, window_features
from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.apis.windows import check_step, list_windows, times_of
from mmvidformer.data.sources import VideoSource
from mmvidformer.models.fast.shared_frames import SharedFrames, frames_of_stage, split_stages
from mmvidformer.models.lengths import group_by_shape
from mmvidformer.storage.names import spell


@dataclass(frozen=True)
class EveryClip:
    """Reads the clip that starts every N frames of a video.

    Its ``where`` has its ``seconds``, and what ``LoadFeatures`` needs to know: ``every``, ``span``,
    ``fps`` and ``frames``. The span of a clip whose frames are spread over a video is ``every``. A
    video that is shorter than a clip has one.
    """

    pipeline: VideoPipeline
    every: int
    stage_frames: int | None

    def __call__(self, video: VideoSource) -> Iterator[tuple[dict, Where]]:
        """Yield the sample of each clip."""
        opened = self.pipeline.open(video)
        times = times_of(opened)  # which numbers frames by time
        span = max(round(self.pipeline.span(times.rate) or self.every), 1)
        period = self.pipeline.period(span, times.rate, self.stage_frames)
        check_step(span, self.every, period, times.seconds(period))
        frames = opened["total_frames"]
        facts = dict(every=self.every, span=span, fps=times.rate, frames=frames)
        for window in list_windows(frames, span, self.every, to_end=False):
            sample = self.pipeline.read(opened, window)
            yield sample, dict(seconds=times.span(*window), facts=facts)


class FeatureExtractor:
    """Makes a row of features of each video, averaged over its views, or of each clip.

    Columns are video, start and end in seconds (None for whole videos) and ``features`` (D,); with
    tokens (views, T, H, W, D) they are flat, and ``shape`` has the five numbers.

    Args:
        config: See ``Recognizer``.
        checkpoint: See ``Recognizer``.
        device: See ``Recognizer``.
        every: Frames from one clip to the next; None: a row for the video.
        tokens: Whether to keep the tokens of each view.
        int8: See ``Recognizer``.
        static: Likewise.
        layers: Blocks whose outputs are the features (``backbone_features``).

    Raises:
        UserError: If the weights do not fit the model, or it has no such layer or no features.
    """

    def __init__(
        self,
        config: str | Config,
        checkpoint: str | None,
        device: str | None,
        every: int | None = None,
        tokens: bool = False,
        int8: bool = False,
        static: float | None = None,
        layers: Sequence[int] | None = None,
    ) -> None:
        from mmvidformer.engine.loading import load_recognizer  # loads MMAction2's models

        needs_all_tokens = tokens or layers is not None
        cfg, checkpoint = find_model(config, checkpoint)
        model = load_recognizer(cfg, checkpoint, device, head=False)
        check_features(model, layers or ())
        has_runs = static is not None or getattr(model.backbone, "static", None) is not None
        if int8 or has_runs or not needs_all_tokens:
            model = make_fast(model, int8, static) or model
        self.model, self.tokens, self.layers = model, tokens, layers
        pipeline = VideoPipeline(cfg, 1 if every else None)
        self.read_clips: WholeVideos | EveryClip = WholeVideos(pipeline)
        self._stages = None
        if every:
            self.read_clips = EveryClip(pipeline, every, frames_of_stage(model))
            self._stages = split_stages(model) if layers is None else None
        # Of videos that are being read: groups of videos take turns.
        self._shared_frames_of = lru_cache(VIDEOS_AT_ONCE)(self._share_frames)
        self.columns = dict(video=str, start=float, end=float, features=list)
        if tokens:
            self.columns["shape"] = tuple

    def answer(self, clips: Sequence[Clip]) -> list[list[dict[str, Any]]]:
        """Make a row of each clip."""
        rows = []
        for clip, values in zip(clips, self._features(clips), strict=True):
            start, end = clip.where.get("seconds", (None, None))
            row = dict(video=spell(clip.name), start=start, end=end)
            row["features"] = values.numpy().ravel()
            row |= dict(shape=list(values.shape), facts=clip.where.get("facts", {}))
            rows.append([row])
        return rows

    def _share_frames(self, name: str) -> SharedFrames:
        return SharedFrames(self._stages)

    def _features(self, clips: Sequence[Clip]) -> list[torch.Tensor]:
        """Compute features (D,) of each clip, or tokens (views, T, H, W, D)."""
        if self._stages is not None:  # one by one, since clips share frames
            shared = [self._shared_frames_of(clip.name) for clip in clips]
            pairs = zip(shared, clips, strict=True)
            return [window_features(frames, clip.sample).mean(dim=0) for frames, clip in pairs]
        views = [clip.sample["inputs"] for clip in clips]  # (views, C, T, H, W)
        features: dict[int, torch.Tensor] = {}
        for numbers in group_by_shape([clip[0] for clip in views]):
            stack = torch.cat([views[number] for number in numbers])
            values = backbone_features(self.model, stack, self.tokens, layers=self.layers)
            parts = values.split([len(views[number]) for number in numbers])
            for number, of_views in zip(numbers, parts, strict=True):
                features[number] = of_views if self.tokens else of_views.mean(dim=0)
        return [features[number] for number in range(len(views))]
