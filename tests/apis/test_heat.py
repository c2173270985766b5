"""Rollout of the clips of a video; tests/cli covers what it draws."""

from types import SimpleNamespace

import pytest

from mmvidformer.apis.heat import rollout_clips


def test_recurrent_recognizers_are_refused() -> None:
    class RecurrentRecognizer:
        def stream(self) -> None: ...

    recognizer = SimpleNamespace(_model=RecurrentRecognizer())
    with pytest.raises(ValueError, match="not defined for a RecurrentRecognizer"):
        next(rollout_clips(recognizer, {"inputs": []}))
