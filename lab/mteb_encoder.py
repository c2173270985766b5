"""Models as encoders of the video tasks of mteb: pip install "mmvidformer[mteb]".

``mteb.evaluate(VideoEncoder("vjepa2_l_sthv2"), mteb.get_task("HMDB51Clustering"))`` computes the
features of the videos of a task, and mteb its scores.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from datasets import Video
from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ScoringFunction
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from mmvidformer.apis.bulk.extraction import FeatureExtractor
from mmvidformer.apis.bulk.reading import Clip, ReadClips
from mmvidformer.apis.factory import PUBLISHED
from mmvidformer.checkpoints.partial import hashes_of
from mmvidformer.config import config_name
from mmvidformer.data.sources import RemoteVideo, VideoContent, VideoSource
from mmvidformer.errors import UserError
from mmvidformer.storage.files import is_remote


class VideoEncoder(AbsEncoder):
    """A model whose features of videos mteb compares, classifies or clusters.

    The features are those of ``mmvidformer features``: the test pipeline of the model reads each
    video, and its views are averaged. Sound and texts have no features.

    Args:
        model_name: Config, HuggingFace folder or address (``Recognizer``).
        revision: By which mteb finds earlier results. Default: a hash of the weights.
        device: Where the model runs; default: the GPU if there is one.
        checkpoint: File or address of weights (``Recognizer``); default: the published ones.
        layers: Numbers of blocks whose outputs are the features; default: the last one.

    Raises:
        UserError: If the weights do not fit the model, or it has no such layer or no features.
    """

    def __init__(
        self,
        model_name: str,
        revision: str | None = None,
        *,
        device: str | None = None,
        checkpoint: str | None = PUBLISHED,
        layers: Sequence[int] | None = None,
    ) -> None:
        self._extractor = FeatureExtractor(model_name, checkpoint, device, layers=layers)
        self.model: Any = self._extractor.model
        self.mteb_model_meta = ModelMeta.create_empty(
            dict(
                name=f"mmvidformer/{config_name(model_name)}",
                revision=revision or _hash_of_weights(self.model),
                n_parameters=sum(parameter.numel() for parameter in self.model.parameters()),
                embed_dim=self.model.backbone.embed_dims if layers is None else None,
                framework=["PyTorch"],
                similarity_fn_name=ScoringFunction.COSINE,
                modalities=["video"],
                experiment_kwargs=None if layers is None else {"layers": list(layers)},
            )
        )

    def encode(
        self,
        inputs: DataLoader,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        show_progress_bar: bool = True,
        **kwargs: Any,
    ) -> np.ndarray:
        """Compute the features of the videos of a task.

        Args:
            inputs: Loader of a ``datasets.Dataset`` with a column ``video``.
            task_metadata: Names the task in messages.
            hf_split: Names the split in messages.
            hf_subset: Unused, as the next and other arguments of mteb.
            prompt_type: Unused.
            show_progress_bar: Whether to show one.
            **kwargs: Unused.

        Returns:
            Features (N, D), float32.

        Raises:
            UserError: If there is no column of videos, or a video cannot be read.
        """
        features = inputs.dataset.features
        if not isinstance(features.get("video"), Video):
            raise UserError(
                f"{task_metadata.name} must have a column 'video' of datasets.Video, got "
                f"{', '.join(features)}"
            )
        place = f"{task_metadata.name} ({hf_split})"
        # Files as they are, which this package decodes: its transforms know their times.
        files = inputs.dataset.select_columns("video").cast_column("video", Video(decode=False))
        loader = DataLoader(
            _VideoClips(files, self._extractor.read_clips, place),
            batch_size=inputs.batch_size,
            num_workers=inputs.num_workers,
            collate_fn=list,
        )
        rows = []
        for clips in tqdm(loader, desc=place, disable=not show_progress_bar):
            for (row,) in self._extractor.answer(clips):
                rows.append(row["features"])
        return np.stack(rows)


class _VideoClips(Dataset):
    """The views of each video of a column, read when they are asked for."""

    def __init__(self, files: Any, read_clips: ReadClips, place: str) -> None:
        self.files, self.read_clips, self.place = files, read_clips, place

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> Clip:
        file = self.files[number]["video"]
        name = file["path"] or f"video {number} of {self.place}"
        video: VideoSource = name
        if file["bytes"] is not None:
            video = VideoContent(name, file["bytes"])
        elif is_remote(name):
            video = RemoteVideo(name)
        ((sample, where),) = self.read_clips(video)
        return Clip(name, sample, where)


def _hash_of_weights(model: torch.nn.Module) -> str:
    state = model.state_dict()
    hashes = hashes_of(state, state)
    lines = "".join(f"{name} {text}\n" for name, text in sorted(hashes.items()))
    return sha256(lines.encode()).hexdigest()[:12]
