"""A good model whose process hangs, crashes or is slow at videos of certain names."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.errors import UserError
from mmvidformer.web.models import Model
from tests.web.bad_models import BadRecognizer


class TrapModel(Model):
    """A good model, but for videos whose suffix is a deed: ``.hang``, ``.crash``, ``.slow``."""

    def load(self) -> Recognizer:
        """Return the model."""
        recognizer = super().load()
        recognizer.__class__ = TrapRecognizer
        return recognizer


class TrapRecognizer(Recognizer):
    """See ``TrapModel``."""

    def answers(self, video: Path, *arguments: Any, **options: Any) -> Iterator[Prediction]:
        """Answer, or do what the suffix says."""
        if video.suffix in (".hang", ".crash"):
            BadRecognizer(video.suffix[1:]).task  # noqa: B018
        for prediction in super().answers(video, *arguments, **options):
            time.sleep(0.5 * (video.suffix == ".slow"))
            yield prediction
        if video.suffix == ".late":
            raise UserError(f"{video}: it ends too early")
